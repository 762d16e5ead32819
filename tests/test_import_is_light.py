"""`import metier` and opening the CLI load nothing heavy; each is imported where it is used."""

import subprocess
import sys

import pytest

HEAVY = ("onnxruntime", "torch", "transformers", "sentence_transformers", "openai", "starlette", "uvicorn", "mcp",
         "jinja2", "matplotlib", "networkx", "tokenizers", "yaml")  # fmt: skip


@pytest.mark.parametrize("module", ["metier", "metier.edge.cli.main", "metier.assemble", "metier.router"])
def test_importing_a_front_door_loads_no_heavy_library(module: str) -> None:
    code = f"import sys, {module}; print(','.join(m for m in {HEAVY!r} if m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""

"""Where a training run stands, in one file that is whole or absent: weights, AdamW's moments, the best weights so far.

Tensors are kept as safetensors (no pickle) and everything else as JSON in its header. The signature of settings, base
model and data makes sure that only the very same run is resumed.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

STATE = "state.safetensors"


@dataclass(frozen=True, slots=True)
class State:
    """A run after `step` steps."""

    step: int
    weights: dict[str, Any]
    best: dict[str, Any]
    moments: dict[str, Any]
    facts: dict[str, Any]


def digest(base: Path) -> str:
    """sha256 (hex) over the base model's weights and configuration."""
    total = hashlib.sha256()
    for path in sorted([*base.glob("*.safetensors"), *base.glob("*.json")]):
        total.update(path.name.encode() + hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()


def save(
    path: Path,
    sign: str,
    step: int,
    weights: dict[str, Any],
    optimiser: Any,
    model: Any,
    best: dict[str, Any],
    facts: dict[str, Any],
) -> None:
    """The file holds the run after `step` steps; a kill at any moment leaves the old file or the new one."""
    from safetensors.torch import save_file

    tensors = {f"now.{k}": v for k, v in weights.items()} | {f"best.{k}": v for k, v in best.items()}
    for name, parameter in model.named_parameters():
        for key, value in optimiser.state.get(parameter, {}).items():
            tensors[f"adam.{key}.{name}"] = value.detach().to("cpu", copy=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    header = {"sign": sign, "step": str(step), "facts": json.dumps(facts)}
    save_file({k: v.contiguous().clone() for k, v in tensors.items()}, part, metadata=header)
    with part.open("rb") as file:
        os.fsync(file.fileno())
    part.replace(path)


def load(path: Path, sign: str) -> State | None:
    """The run kept there, or None when there is none or it was another run's."""
    from safetensors import safe_open

    if not path.is_file():
        return None
    with safe_open(path, framework="pt") as file:
        header = file.metadata()
        if header.get("sign") != sign:
            return None
        tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 (no mapping)
    parts: dict[str, dict[str, Any]] = {"now": {}, "best": {}, "adam": {}}
    for key, value in tensors.items():
        part, _, name = key.partition(".")
        parts[part][name] = value
    return State(int(header["step"]), parts["now"], parts["best"], parts["adam"], json.loads(header["facts"]))


def restore(optimiser: Any, model: Any, state: State) -> None:
    """The optimiser goes on from the moments of `state`."""
    for name, parameter in model.named_parameters():
        for key in ("step", "exp_avg", "exp_avg_sq"):
            value = state.moments.get(f"{key}.{name}")
            if value is not None:
                target = value if key == "step" else value.to(parameter.device)
                optimiser.state[parameter][key] = target

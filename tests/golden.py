"""Golden files: what people and programs see, kept as text. `METIER_GOLDEN=write` rewrites them."""

import json
import os
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "golden"


def golden(name: str, shown: str) -> None:
    """`shown` is what `tests/golden/<name>` holds."""
    path = FOLDER / name
    if os.environ.get("METIER_GOLDEN") == "write":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(shown, encoding="utf-8")
    kept = path.read_text(encoding="utf-8") if path.exists() else "(no such golden file: METIER_GOLDEN=write makes it)"
    assert shown == kept


def golden_json(name: str, value: Any) -> None:
    """The same for plain data."""
    golden(name, json.dumps(value, ensure_ascii=False, indent=2) + "\n")

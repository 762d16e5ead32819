"""Small libraries written to disk for the tests of this folder."""

from __future__ import annotations

from pathlib import Path


def skill_text(name: str, description: str = "", body: str = "Do it.\n", more: str = "") -> str:
    """The text of a well-formed SKILL.md."""
    return f"---\nname: {name}\ndescription: {description or 'Does ' + name + '.'}\n{more}---\n{body}"


def put(root: Path, relative: str, *, name: str = "", text: str | bytes = "", **fields: str) -> Path:
    """A skill's folder at `root/relative`, well formed unless its text is given; the folder."""
    folder = root / relative
    folder.mkdir(parents=True, exist_ok=True)
    data = text or skill_text(name or folder.name, **fields)
    (folder / "SKILL.md").write_bytes(data if isinstance(data, bytes) else data.encode())
    return folder

"""What an external scanner says about a skill's folder, where one is installed; metier ships none and needs none.

Known by itself: `skill-scanner` of `cisco-ai-skill-scanner` (Apache-2.0), asked offline and without a language model.
Any other command that prints a JSON object with a list `findings` can be named instead.
"""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from metier.errors import InputError

KNOWN = "skill-scanner scan {folder} --format json"
PLACE = "{folder}"
SECONDS = 120.0
"""One skill takes the known scanner about ten seconds, most of them its own start."""
ORDER = ("CRITICAL", "HIGH", "MEDIUM", "LOW", "INFO")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that the scanner points out."""

    severity: str
    title: str
    file: str
    line: int | None
    remedy: str


def scan(folder: str, command: str | None = None) -> list[Finding]:
    """The scanner's findings, the gravest first. Raises `InputError` where none is installed.

    The folder is one argument of the command, never a part of a shell's line.
    """
    words = [folder if word == PLACE else word for word in shlex.split(command or KNOWN)]
    if not words or shutil.which(words[0]) is None:
        raise InputError(f"{words[0] if words else command}: no such scanner; run: pipx install cisco-ai-skill-scanner")
    if folder not in words:
        raise InputError(f"--scanner: {command!r} does not say where the folder goes; write {PLACE} there")
    try:
        done = subprocess.run(words, capture_output=True, timeout=SECONDS, check=False, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InputError(f"{words[0]}: did not finish on {folder} ({error}); run it by hand to see why") from error
    return read(done.stdout.decode("utf-8", "replace"), words[0])


def read(text: str, name: str) -> list[Finding]:
    """The findings of a scanner's JSON; whatever it prints before the object is skipped."""
    try:
        found = json.loads(text[text.index("{") :])
        listed = found["findings"]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{name}: its answer is no JSON object with 'findings'; run it by hand to see why") from error
    items = [_finding(item) for item in listed if isinstance(item, Mapping)] if isinstance(listed, Sequence) else []
    return sorted(items, key=lambda f: (ORDER.index(f.severity) if f.severity in ORDER else len(ORDER), f.title))


def _finding(item: Mapping[str, Any]) -> Finding:
    line = item.get("line_number")
    return Finding(
        severity=str(item.get("severity") or "INFO").upper(),
        title=str(item.get("title") or item.get("rule_id") or "finding"),
        file=str(item.get("file_path") or ""),
        line=line if isinstance(line, int) else None,
        remedy=str(item.get("remediation") or ""),
    )

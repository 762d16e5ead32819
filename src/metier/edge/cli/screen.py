"""Where the CLI writes: answers to stdout, everything else to stderr, without terminal escapes of others."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TextIO

from metier.late import dataclass
from metier.text import printable, visible

BAR = 28
"""Characters of a progress bar."""
REDRAW_SECONDS = 0.1
_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


def columns(otherwise: int) -> int:
    """`shutil.get_terminal_size((otherwise, 24)).columns`, without the archivers that `shutil` loads."""
    told = os.environ.get("COLUMNS", "")
    if told.isdecimal() and int(told) > 0:
        return int(told)
    try:
        return os.get_terminal_size(sys.__stdout__.fileno()).columns or otherwise  # type: ignore[union-attr]
    except (AttributeError, ValueError, OSError):
        return otherwise


@dataclass(frozen=True, slots=True)
class Screen:
    """One invocation's two streams."""

    json_wanted: bool = False
    quiet: bool = False
    out: TextIO = sys.stdout
    err: TextIO = sys.stderr

    @property
    def colour(self) -> bool:
        """Whether stdout is a terminal that wants colour."""
        return self.out.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"

    @property
    def width(self) -> int:
        """Columns of the terminal; 100 where there is none."""
        return columns(100) if self.out.isatty() else 100

    def style(self, text: str, *names: str) -> str:
        """`text` in these styles, where the terminal shows them."""
        if not self.colour or not names:
            return text
        return f"\x1b[{';'.join(_STYLES[n] for n in names)}m{text}\x1b[0m"

    def print(self, text: str = "") -> None:
        """One answer on stdout. Text that came from a skill goes through `clean` first."""
        self.out.write(text + "\n")

    def json(self, value: Mapping[str, Any]) -> None:
        """One JSON object, and nothing else, on stdout."""
        wide = (self.out.encoding or "").lower().replace("-", "") == "utf8"  # elsewhere JSON's own escapes say it all
        self.out.write(json.dumps(value, ensure_ascii=not wide, indent=None) + "\n")

    def note(self, text: str) -> None:
        """A remark on stderr; silent under --quiet."""
        if not self.quiet:
            self.err.write(line(text) + "\n")

    def error(self, text: str) -> None:
        """An error on stderr, always."""
        self.err.write(line(text) + "\n")

    def table(self, rows: Sequence[Sequence[str]], header: Sequence[str]) -> None:
        """Columns as wide as their widest cell; the last one takes what is left."""
        cells = [[printable(str(cell)).replace("\n", " ") for cell in row] for row in rows]
        widths = [max(len(row[i]) for row in [list(header), *cells]) for i in range(len(header))]
        for n, row in enumerate([list(header), *cells]):
            line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            self.print(self.style(line, "bold") if n == 0 else line)

    def progress(self, label: str, total: int) -> Callable[[int], None]:
        """A bar on stderr while it is a terminal, else nothing; call it with the number done so far."""
        if self.quiet or not self.err.isatty():
            return lambda done: None
        began, last = time.monotonic(), [0.0]

        def show(done: int) -> None:
            now = time.monotonic()
            if done < total and now - last[0] < REDRAW_SECONDS:
                return
            last[0] = now
            part = done / total if total else 1.0
            left = (now - began) / part * (1 - part) if part > 0 else 0.0
            bar = "█" * round(BAR * part) + "░" * (BAR - round(BAR * part))
            ending = "\n" if done >= total else ""
            self.err.write(f"\r{label} {bar} {done}/{total}  {left:4.0f} s left{ending}")
            self.err.flush()

        return show


def line(text: str) -> str:
    """The same on one line, whatever names of files it holds."""
    return visible(printable(text))


def clean(text: str) -> str:
    """Text of a skill as a terminal may safely show it."""
    return printable(text)

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Check a Keep-a-Changelog file: lint_changelog.py CHANGELOG.md"""

import datetime
import itertools
import re
import sys
from pathlib import Path

SECTIONS = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
HEADING = re.compile(
    r"^## \[(?P<version>[^\]]+)\](?: - (?P<date>\d{4}-\d{2}-\d{2})(?P<yanked> \[YANKED\])?)?\s*$"
)
VERSION = re.compile(r"^(\d+)\.(\d+)\.(\d+)(?:-([0-9A-Za-z.-]+))?(?:\+\S+)?$")


def version_key(text):
    """Sort key by semantic versioning, or None; a pre-release comes before its release."""
    match = VERSION.match(text)
    if not match:
        return None
    numbers = tuple(int(part) for part in match.groups()[:3])
    pre = match.group(4)
    if pre is None:
        return (*numbers, 1, ())
    parts = tuple((0, int(p), "") if p.isdigit() else (1, 0, p) for p in pre.split("."))
    return (*numbers, 0, parts)


def lint(text, today=None):
    """Yield (line, level, rule, message)."""
    today = today or datetime.date.today()
    lines = text.splitlines()
    found, headings, links = [], [], set()
    section, entries, fenced = None, 0, False

    def say(line, level, rule, message):
        found.append((line, level, rule, message))

    def close_section():
        if section and not entries:
            say(section[0], "warning", "empty", f"'{section[1]}' has no entries")

    titles = [(n, line) for n, line in enumerate(lines, 1) if line.startswith("#")]
    if not titles or titles[0][1].strip() != "# Changelog":
        say(titles[0][0] if titles else 1, "error", "title", "expected '# Changelog'")

    for number, line in enumerate(lines, 1):
        if line.startswith("```"):
            fenced = not fenced
        if fenced:
            continue
        link = re.match(r"^\[([^\]]+)\]:\s+\S+", line)
        if link:
            links.add(link.group(1))
        elif line.startswith("## "):
            close_section()
            section, entries = None, 0
            match = HEADING.match(line)
            version = match.group("version") if match else None
            unreleased = version == "Unreleased"
            if not match or (unreleased == bool(match.group("date"))):
                say(number, "error", "heading", f"cannot read '{line.strip()}'")
                continue
            if version in [h[1] for h in headings]:
                say(number, "error", "duplicate", f"{version} appears twice")
            date = None
            if not unreleased:
                if version_key(version) is None:
                    say(number, "error", "heading", f"'{version}' is not a semantic version")
                try:
                    date = datetime.date.fromisoformat(match.group("date"))
                except ValueError:
                    say(number, "error", "date", f"{match.group('date')} does not exist")
                if date and date > today:
                    say(number, "error", "date", f"{date} is in the future")
            elif headings:
                say(number, "error", "order", "[Unreleased] must come first")
            headings.append((number, version, date))
        elif line.startswith("### "):
            close_section()
            name = line[4:].strip()
            section, entries = (number, name), 0
            if name not in SECTIONS:
                say(number, "error", "section", f"'{name}' is not one of {sorted(SECTIONS)}")
        elif re.match(r"^\s*[-*+] ", line):
            entries += 1
            if line.startswith(("* ", "+ ")):
                say(number, "warning", "entry", "use '- '")
            if len(line) > 200:
                say(number, "warning", "entry", f"{len(line)} characters, at most 200")
    close_section()

    released = [h for h in headings if h[1] != "Unreleased"]
    for newer, older in itertools.pairwise(released):
        first, second = version_key(newer[1]), version_key(older[1])
        if first and second and first < second:
            say(older[0], "error", "order", f"{older[1]} stands below {newer[1]}")
        if newer[2] and older[2] and newer[2] < older[2]:
            say(older[0], "error", "order", f"{older[2]} is later than {newer[2]} above it")
    for number, version, _ in released:
        if version not in links:
            say(number, "warning", "link", f"no link definition for [{version}]")
    return sorted(found)


def main(argv):
    if len(argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    found = lint(Path(argv[1]).read_text(encoding="utf-8-sig"))
    for line, level, rule, message in found:
        print(f"{line}: {level}: {rule}: {message}")
    return 1 if any(level == "error" for _, level, _, _ in found) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))

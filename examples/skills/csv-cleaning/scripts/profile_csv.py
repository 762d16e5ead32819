#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Describe a CSV file without changing it: profile_csv.py data.csv"""

import collections
import csv
import re
import sys
from pathlib import Path

KINDS = [
    ("integer", re.compile(r"[+-]?\d+")),
    ("decimal point", re.compile(r"[+-]?\d{1,3}(?:,\d{3})*\.\d+|[+-]?\d+\.\d+")),
    ("decimal comma", re.compile(r"[+-]?\d{1,3}(?:\.\d{3})*,\d+|[+-]?\d+,\d+")),
    ("iso date", re.compile(r"\d{4}-\d{2}-\d{2}(?:[T ].*)?")),
    ("other date", re.compile(r"\d{1,2}[./-]\d{1,2}[./-]\d{2,4}")),
]
EMPTY_WORDS = {"n/a", "na", "null", "none", "-", "?", "nan"}


def decode(raw):
    for encoding in ("utf-8-sig", "cp1252"):
        try:
            return raw.decode(encoding), encoding
        except UnicodeDecodeError:
            continue
    return raw.decode("latin-1"), "latin-1"


def kind(value):
    for name, pattern in KINDS:
        if pattern.fullmatch(value):
            return name
    return "text"


def delimiter_of(text):
    sample = "\n".join(text.splitlines()[:50])
    try:
        return csv.Sniffer().sniff(sample, delimiters=",;\t|").delimiter
    except csv.Error:
        return max(",;\t|", key=sample.count)


def main(argv):
    if len(argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    text, encoding = decode(Path(argv[1]).read_bytes())
    delimiter = delimiter_of(text)
    rows = [r for r in csv.reader(text.splitlines(keepends=True), delimiter=delimiter) if r]
    if not rows:
        print("the file is empty", file=sys.stderr)
        return 1
    header, body = rows[0], rows[1:]
    ragged = [n for n, row in enumerate(body, 2) if len(row) != len(header)]
    print(f"encoding {encoding}, delimiter {delimiter!r}, {len(body)} rows, {len(header)} columns")
    print(f"ragged rows: {len(ragged)} {ragged[:10] if ragged else ''}".rstrip())
    print(f"exact duplicates: {len(body) - len({tuple(row) for row in body})}")
    for index, name in enumerate(header):
        values = [row[index] for row in body if index < len(row)]
        filled = [v for v in values if v.strip()]
        kinds = collections.Counter(kind(v.strip()) for v in filled)
        notes = []
        if any(v != v.strip() or "\u00a0" in v for v in filled):
            notes.append("stray whitespace")
        if any(v.strip().lower() in EMPTY_WORDS for v in filled):
            notes.append("words for empty")
        if any(re.fullmatch(r"0\d+", v.strip()) for v in filled):
            notes.append("leading zeros: keep as text")
        if any("Ã" in v or "â€" in v for v in filled):
            notes.append("decoded twice")
        if len({v.strip() for v in filled}) != len({v.strip().casefold() for v in filled}):
            notes.append("differs only in case")
        if len(kinds) > 1:
            notes.append("mixed kinds")
        share = 100 * len(filled) / len(values) if values else 0
        common = ", ".join(f"{v!r} x{n}" for v, n in collections.Counter(filled).most_common(3))
        print(f"- {name!r}: {share:.0f}% filled, {len(set(filled))} distinct, {dict(kinds)}; {common}")
        if notes:
            print(f"    look at: {'; '.join(notes)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))

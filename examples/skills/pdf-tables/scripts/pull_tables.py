#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write every table of a PDF as CSV: pull_tables.py report.pdf --pages 3-5 --out tables/"""

import argparse
import csv
import sys
from pathlib import Path


def page_numbers(text, last):
    """'2,5-7' -> [2, 5, 6, 7]; nothing -> all pages. Numbers start at 1."""
    if not text:
        return list(range(1, last + 1))
    wanted = []
    for part in text.split(","):
        first, _, end = part.partition("-")
        wanted.extend(range(int(first), int(end or first) + 1))
    outside = [n for n in wanted if not 1 <= n <= last]
    if outside:
        raise SystemExit(f"the file has {last} pages; asked for {outside}")
    return wanted


def clean(cell):
    """One cell as one line; a word broken by a hyphen is joined."""
    lines = [line.strip() for line in (cell or "").splitlines() if line.strip()]
    text = ""
    for line in lines:
        if text.endswith("-"):
            text = text[:-1] + line
        else:
            text = f"{text} {line}".strip()
    return text


def settings(page, edges):
    if edges:
        return {
            "vertical_strategy": "explicit",
            "explicit_vertical_lines": edges,
            "horizontal_strategy": "text",
        }
    ruled = len(page.lines) + len(page.rects) >= 4
    strategy = "lines" if ruled else "text"
    return {"vertical_strategy": strategy, "horizontal_strategy": strategy}


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pdf", type=Path)
    parser.add_argument("--pages", default="")
    parser.add_argument("--edges", default="", help="x of the column edges, in points")
    parser.add_argument("--out", type=Path, default=Path("tables"))
    args = parser.parse_args(argv)

    try:
        import pdfplumber
    except ImportError:
        raise SystemExit("pdfplumber is missing: pip install pdfplumber") from None

    edges = [float(x) for x in args.edges.split(",") if x]
    args.out.mkdir(parents=True, exist_ok=True)
    found = 0
    with pdfplumber.open(args.pdf) as pdf:
        for number in page_numbers(args.pages, len(pdf.pages)):
            page = pdf.pages[number - 1]
            for index, table in enumerate(page.extract_tables(settings(page, edges)), 1):
                rows = [[clean(cell) for cell in row] for row in table]
                rows = [row for row in rows if any(row)]
                if not rows:
                    continue
                target = args.out / f"{args.pdf.stem}-p{number:03d}-t{index}.csv"
                with target.open("w", newline="", encoding="utf-8") as handle:
                    csv.writer(handle).writerows(rows)
                print(f"{target}: {len(rows)} rows x {max(map(len, rows))} columns")
                found += 1
    if not found:
        print("no table found: is there a text layer?", file=sys.stderr)
    return 0 if found else 1


if __name__ == "__main__":
    sys.exit(main())

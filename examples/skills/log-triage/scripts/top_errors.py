#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Group log lines by their fixed part: top_errors.py app.log app.log.1.gz --level ERROR --top 20"""

import argparse
import gzip
import json
import re
import sys

MASKS = [
    (re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"), "<uuid>"),
    (re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+"), "<mail>"),
    (re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b"), "<ip>"),
    (re.compile(r"\"[^\"]*\"|'[^']*'"), "<text>"),
    (re.compile(r"\b0x[0-9a-fA-F]+\b|\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{8,}\b"), "<hex>"),
    (re.compile(r"\d+(?:[.,:]\d+)*"), "<n>"),
]
STAMP = re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(?:[.,]\d+)?(?:Z|[+-]\d{2}:?\d{2})?")


def shape(message):
    for pattern, name in MASKS:
        message = pattern.sub(name, message)
    return " ".join(message.split())[:160]


def read(path):
    if path == "-":
        yield from sys.stdin
        return
    opener = gzip.open if path.endswith(".gz") else open
    with opener(path, "rt", encoding="utf-8", errors="replace") as handle:
        yield from handle


def parse(line):
    """(time, level, message) of a plain or JSON line."""
    if line.startswith("{"):
        try:
            data = json.loads(line)
        except ValueError:
            data = None
        if isinstance(data, dict):
            time = next((data[k] for k in ("time", "timestamp", "ts", "@timestamp") if k in data), "")
            level = next((data[k] for k in ("level", "severity", "lvl") if k in data), "")
            text = next((data[k] for k in ("msg", "message", "error") if k in data), line)
            return str(time), str(level).upper(), str(text)
    stamp = STAMP.search(line)
    return (stamp.group() if stamp else ""), None, line


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", help="'-' reads standard input")
    parser.add_argument("--level", default="ERROR,FATAL,CRITICAL")
    parser.add_argument("--top", type=int, default=20)
    parser.add_argument("--max-groups", type=int, default=50_000)
    args = parser.parse_args(argv)

    levels = [name.strip().upper() for name in args.level.split(",") if name.strip()]
    plain = re.compile(r"\b(?:" + "|".join(map(re.escape, levels)) + r")\b", re.IGNORECASE)
    groups, lines, overflow = {}, 0, 0
    for path in args.files:
        for line in read(path):
            lines += 1
            time, level, message = parse(line.rstrip("\n"))
            hit = plain.search(message) if level is None else level in levels
            if not hit:
                continue
            key = shape(STAMP.sub("", message) if level is None else message)
            if key not in groups:
                if len(groups) >= args.max_groups:
                    overflow += 1
                    continue
                groups[key] = [0, time, time]
            entry = groups[key]
            entry[0] += 1
            if time:
                entry[1] = min(entry[1] or time, time)
                entry[2] = max(entry[2], time)
    for key, (count, first, last) in sorted(groups.items(), key=lambda kv: -kv[1][0])[: args.top]:
        print(f"{count:8d}  {first or '-':25s}  {last or '-':25s}  {key}")
    print(f"{lines} lines, {len(groups)} groups" + (f", {overflow} lines beyond the limit" if overflow else ""))
    return 0


if __name__ == "__main__":
    sys.exit(main())

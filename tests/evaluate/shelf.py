"""A small library with requests, under the encoder of hashed words: what the tests of evaluation stand on."""

from __future__ import annotations

import json
from pathlib import Path

from metier.assemble import settings
from metier.assemble.workshop import Workshop
from metier.evaluate.datasets import Request
from metier.evaluate.kept import KeptEncoder
from metier.evaluate.run import Bench
from metier.evaluate.sweep import generic_words

TOPICS = {
    "pdf": ("pull tables out of a pdf report", "pages columns totals text layer rows"),
    "sql": ("make a slow sql query fast", "index plan join scan postgres vacuum"),
    "git": ("bring back a lost git commit", "reflog branch reset rebase head"),
    "csv": ("clean a messy csv file", "delimiter quotes encoding header trim"),
    "docker": ("make a docker image small", "layers alpine multi stage cache"),
    "notes": ("write release notes for users", "changelog version breaking upgrade"),
}
COMMON = "Follow these steps carefully. Check the input first, then run the tool and report what was found to the user."
REQUESTS = {
    "pdf": ["the tables in this pdf should become rows", "columns of a report, page by page"],
    "sql": ["our postgres query scans the whole table", "slow join, which index do I need"],
    "git": ["I did a hard reset and lost a branch", "find the commit in the reflog"],
    "csv": ["quotes and delimiter are broken in this export", "trim the header of my csv"],
    "docker": ["the image has too many layers", "alpine or multi stage for a smaller image"],
    "notes": ["what changed in this version, for users", "list breaking changes before the upgrade"],
}


def rows(copies: int = 10) -> list[dict[str, str]]:
    """`copies` skills a topic; only number 0 of each has the topic's own words in full."""
    made = []
    for topic, (what, vocabulary) in TOPICS.items():
        for n in range(copies):
            words = vocabulary.split()
            kept = words if n == 0 else words[n % len(words) :]
            sections = f"# {topic}\n\n{COMMON} We {what}.\n\n## Details\n\n" + " ".join(kept * 4) + f" variant {n}.\n"
            made.append(
                {"id": f"{topic}-{n}", "name": f"{topic}-{n}", "description": f"{what} ({n})", "body": sections}
            )
    return made


def library(folder: Path, copies: int = 10) -> Path:
    path = folder / "skills.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows(copies)), encoding="utf-8")
    return path


def requests(drafts: bool = True) -> list[Request]:
    """Two requests a topic; every other one comes with a hypothetical skill."""
    found = []
    for topic, texts in REQUESTS.items():
        for n, text in enumerate(texts):
            given = (f"name: {topic} helper. {TOPICS[topic][1]}",) if drafts and n == 0 else ()
            found.append(Request(f"{topic}{n}", text, {f"{topic}-0": 1.0}, "first" if n == 0 else "second", given))
    return found


def requests_file(folder: Path) -> Path:
    path = folder / "dev.requests.jsonl"
    lines = [
        {"id": r.id, "text": r.text, "gold": list(r.gold), "dataset": r.dataset, "hypothetical_skills": r.hypothetical}
        for r in requests()
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def bench(folder: Path, copies: int = 10) -> Bench:
    """An index with hashed words over the small library."""
    config, _ = settings.load(flags={"home": str(folder / "home"), "encoder": "hash"}, env={}, cwd=folder)
    shop = Workshop(config, paths=[library(folder, copies)], evaluating=True)
    shop.refresh()
    opened, encoder = shop.opened(), KeptEncoder(shop.encoder, shop.home / "vectors")
    made = Bench(
        index=opened.index,
        skills=opened.library.skills,
        encoder=encoder,
        body=shop.body,
        generic=lambda: encoder.encode(generic_words(made), kind="document"),
    )
    return made

"""Messages that need no skill, and requests that do: the two sides that the judge of rule 1.13 is fitted on."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from metier.models import pairs
from metier.text import words

TRAINING = Path(__file__).parents[2] / "training"
NEEDLESS = ("needless", "needless-2", "needless-3")
SHORT = ("short", "short-2")
NEEDED = ("needed", "needed-2")
KINDS = {"ack", "agent", "arithmetic", "chatter", "edit", "followup", "knowledge", "pasted", "story"}


def rows(*names: str) -> list[dict[str, object]]:
    return [row for name in names for _, row in pairs.rows(TRAINING / f"{name}.jsonl")]


def plain(text: object) -> str:
    return " ".join(words(str(text))) or str(text)


def test_both_sides_are_large_and_a_sixth_is_not_english() -> None:
    needless, needed = rows(*NEEDLESS), rows(*NEEDED, *SHORT)
    assert len(needless) >= 2_000 and len(needed) >= 1_500
    for side in (needless, needed):
        assert 0.12 <= sum(row["lang"] != "en" for row in side) / len(side) <= 0.3
    assert {row["kind"] for row in needless} == KINDS


def test_no_message_stands_on_both_sides_or_twice_on_one() -> None:
    both = [plain(row["text"]) for row in rows(*NEEDLESS, *NEEDED, *SHORT)]
    repeated = [text for text, times in Counter(both).items() if times > 1]
    assert len(repeated) <= 12, repeated  # the first three files have some; none since


def test_short_commands_are_short() -> None:
    assert all(len(str(row["text"]).split()) <= 8 for row in rows(*SHORT))


def test_nobody_filled_in_templates() -> None:
    for name in (*NEEDLESS, *NEEDED, *SHORT):
        runs: Counter[tuple[str, ...]] = Counter()
        for row in rows(name):
            said = words(str(row["text"]))
            runs.update({tuple(said[n : n + 5]) for n in range(len(said) - 4)})
        repeated = [run for run, times in runs.items() if times > 1]
        assert len(repeated) <= 0.02 * len(runs), (name, repeated[:5])

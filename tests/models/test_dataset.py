"""From pairs to examples: nothing held out is learnt, nothing like a test document is known."""

from __future__ import annotations

import pytest

from metier.errors import InputError
from metier.models.dataset import Known, near, prepare
from metier.models.pairs import Pair
from metier.models.replay import HashEncoder

SUBJECTS = ["pdf", "git", "sql", "docker", "csv", "slides", "email"]
SUBJECTS += ["invoices", "tests", "logs", "charts", "secrets", "backups", "fonts"]
KNOWN = [
    Known(f"s:{s}", f"{s}-help", f"Helps with {s}", f"# {s}\n\nHow to work on {s} step by step.") for s in SUBJECTS
]
ASKED = [Pair(f"my {s} is broken", f"s:{s}", "written") for s in SUBJECTS]
ASKED += [Pair(f"help with {s}", f"s:{s}", "weak") for s in SUBJECTS]


def by_order(documents: object, requests: object) -> list[list[int]]:
    return [list(range(len(KNOWN)))] * len(ASKED)


def test_a_held_out_skill_is_neither_answer_nor_negative_in_training() -> None:
    made = prepare(KNOWN, ASKED, HashEncoder(), by_order, share=0.25)
    held = {made.corpus.groups[e.document] for e in made.held_out}
    assert len(made.held_out) == 4
    for example in made.examples:
        assert made.corpus.groups[example.document] not in held
        assert not {made.corpus.groups[n] for n in example.negatives} & held
    assert made.sources == {"written": 10, "weak": 10}
    assert made.untaught == 4  # the weak pairs of the held-out skills


def test_a_weak_pair_is_read_against_the_body_alone() -> None:
    made = prepare(KNOWN, ASKED, HashEncoder(), None)
    weak = [e for e in made.examples if e.body_only]
    assert {e.request.startswith("help with") for e in weak} == {True}
    assert made.corpus.readings[weak[0].document][0] == (KNOWN[weak[0].document].body,)


def test_a_document_is_read_as_the_index_reads_it_and_as_its_body() -> None:
    body, card = "# pdf\n\nHow to work on pdf step by step.", "pdf-help: Helps with pdf"
    assert KNOWN[0].views == (body, card, f"{card}\n\n{body}")
    assert KNOWN[0].readings == ((body,), (card, body))
    assert Known("a", "only-name", "", "").readings == (("only-name",),)


def test_skills_that_one_request_needs_are_no_negatives_of_each_other() -> None:
    both = [Pair("pdf and git at once", "s:pdf", "agentic", also=("s:git",))]
    both += [Pair("pdf and git at once", "s:git", "agentic", also=("s:pdf",))]
    made = prepare(KNOWN, [*ASKED, *both], HashEncoder(), None, share=0.01, seed=3)
    rows = {one.id: row for row, one in enumerate(KNOWN)}
    found = [e for e in [*made.examples, *made.held_out] if e.request == "pdf and git at once"]
    assert {(e.document, e.also) for e in found} == {
        (rows["s:pdf"], (rows["s:git"],)),
        (rows["s:git"], (rows["s:pdf"],)),
    }
    for example in found:
        assert not {rows["s:pdf"], rows["s:git"]} & set(example.negatives)


def test_what_is_like_a_test_document_by_name_text_or_vector_is_found() -> None:
    text = "Find the tables of a page, then write each one to a file of its own with a header line."
    gold = [Known("g", "Page Tables", "", text)]
    same_name = Known("1", "page-tables", "", "something else entirely here")
    same_text = Known("2", "other", "", text + " Done.")
    other = Known("3", "git-recovery", "", "Restore a branch from the reflog after a hard reset.")
    assert near([same_name, same_text, other], gold, None) == {"1", "2"}
    encoder = HashEncoder()
    vectors = encoder.encode([gold[0].body, other.body, other.body], kind="document")
    assert near([same_name, same_text, other], gold, (vectors, vectors[:1])) == {"1", "2"}
    assert near([other], gold, (vectors[:1], vectors[:1])) == {"3"}


def test_pairs_of_unknown_skills_teach_nothing() -> None:
    with pytest.raises(InputError, match="none of the 1 pairs names one of the 14 skills"):
        prepare(KNOWN, [Pair("x", "nobody", "written")], HashEncoder(), None)

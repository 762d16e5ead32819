import time

from tests.rerank.material import MESH

from metier.rerank.rules import MAX_STATEMENTS, ancestry, plain, statements


def test_headings_steps_and_sentences_are_told_apart() -> None:
    forms = [(s.form, s.text) for s in statements(MESH)]
    assert ("heading", "Steps") in forms
    assert ("step", "Compute the volume of every connected component.") in forms
    assert ("sentence", "Reads a binary STL file and reports the mass of the largest part.") in forms


def test_code_lines_keep_their_language_and_are_no_headings() -> None:
    found = statements("```bash\n# a comment\nqpdf --check a.pdf\n```\n# Real heading\n")
    assert [(s.form, s.language) for s in found] == [("code", "bash"), ("code", "bash"), ("heading", "")]


def test_table_rows_are_statements_and_rules_are_not() -> None:
    assert [s.text for s in statements("| a | b |\n|---|---|\n| 1 | 2 |\n\n---\n")] == ["a | b", "1 | 2"]


def test_a_cell_that_says_yes_or_no_speaks_of_its_column() -> None:
    table = "| Change | Unit | E2E |\n|---|---|---|\n| One function | Required | Skip |\n| UI | ✅ | ❌ |\n"
    assert [s.text for s in statements(table)][1:] == ["One function | Unit required | skip E2E", "UI | Unit | no E2E"]
    assert [s.text for s in statements("| a | no |\n")] == ["a | no"]


def test_a_statement_keeps_its_words_as_written() -> None:
    only = statements("- Use **`pypdf`**, see [the page](https://x.org/y).")[0]
    assert only.text == "Use pypdf, see the page." and "**`pypdf`**" in only.quote
    assert plain("*one* __two__ `three`") == "one two three"


def test_every_statement_knows_the_heading_above_it() -> None:
    found = statements("# A\n\ntext\n\n## B\n\n- step\n\n# C\n\nend\n")
    parents = [found[p].text if p >= 0 else None for p in ancestry(found)]
    assert parents == [None, "A", "A", "B", None, "C"]


def test_wrapped_lines_are_one_sentence() -> None:
    assert [s.text for s in statements("This sentence goes on\nin the next line.")] == [
        "This sentence goes on in the next line."
    ]


def test_a_hostile_text_is_read_in_bounded_time_and_size() -> None:
    baits = ["#" * 10**6, "* " * 10**6, "`" * 10**6, "[" * 10**6 + "](", ("- " * 40 + "\n") * 10**5, "<" * 10**6,
             "**a" * 300_000, "| a " * 300_000, "a. B" * 300_000, "```\n" * 10**5]  # fmt: skip
    began = time.process_time()
    for bait in baits:
        assert len(statements(bait)) <= MAX_STATEMENTS
    assert time.process_time() - began < 5.0

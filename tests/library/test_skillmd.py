"""Reading one SKILL.md: any bytes in, a name and a description out, every problem at once."""

from __future__ import annotations

import string
from itertools import pairwise

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from metier.library.skillmd import Parsed, first_paragraph, parse, render

GOOD = "---\nname: pdf-tables\ndescription: Pull tables out of PDF files.\n---\n# Steps\n\nOpen the file.\n"


def read(text: str | bytes, folder: str = "pdf-tables") -> Parsed:
    data = text.encode() if isinstance(text, str) else text
    return parse(data, path="pdf-tables/SKILL.md", folder=folder)


def codes(parsed: Parsed) -> list[str]:
    return [problem.code for problem in parsed.problems]


def front(lines: str, body: str = "# Steps\n\nOpen the file.\n") -> Parsed:
    return read(f"---\n{lines}\n---\n{body}")


def test_a_well_formed_skill_has_no_problems() -> None:
    parsed = read(GOOD)
    assert (parsed.name, parsed.description) == ("pdf-tables", "Pull tables out of PDF files.")
    assert parsed.body == "# Steps\n\nOpen the file.\n"
    assert parsed.problems == () and parsed.body_line == 5


def test_an_unquoted_colon_in_the_description_keeps_the_skill() -> None:  # field report 10
    parsed = front("name: pdf-tables\ndescription: Use when: a PDF has tables: pull them\nlicense: MIT")
    assert parsed.description == "Use when: a PDF has tables: pull them"
    assert parsed.front["license"] == "MIT"
    [problem] = parsed.problems
    assert (problem.code, problem.line) == ("unquoted-colon", 3)
    assert "Use when: a PDF" in problem.message and "double quotes" in problem.remedy


def test_windows_line_ends_and_a_byte_order_mark_are_read_and_noted() -> None:  # field report 11
    parsed = read(b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode())
    assert (parsed.name, parsed.description) == ("pdf-tables", "Pull tables out of PDF files.")
    assert parsed.body == "# Steps\n\nOpen the file.\n"
    assert codes(parsed) == ["byte-order-mark", "crlf"]


@pytest.mark.parametrize(
    ("encoding", "description", "named"),
    [
        ("cp1252", "R\u00e9sum\u00e9s with \u201csmart\u201d quotes \u2014 na\u00efve ones", "cp1252"),
        ("gb18030", "从扫描的PDF文件中提取表格，并导出为电子表格。", "gb18030"),
        ("cp1250", "Wyciąga tabele z plików, głosowych też", "cp1250"),
    ],
)
def test_bytes_that_are_not_utf8_do_not_raise(encoding: str, description: str, named: str) -> None:  # field report 11
    parsed = read(GOOD.replace("Pull tables out of PDF files.", description).encode(encoding))
    assert parsed.description == description
    [problem] = parsed.problems
    assert problem.code == "encoding" and named in problem.message and problem.line == 3


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_utf16_and_utf32_are_read(encoding: str) -> None:
    data = GOOD.encode(encoding)
    parsed = read(data if encoding.endswith(("16", "32")) else GOOD.encode(encoding))
    assert (parsed.name, parsed.description) == ("pdf-tables", "Pull tables out of PDF files.")
    assert parsed.body == "# Steps\n\nOpen the file.\n"


def test_a_few_damaged_characters_leave_the_rest_of_a_utf8_file_alone() -> None:
    text = GOOD.replace("Pull", "Größe, Länge, Maß, Höhe, Übung: ziehe").replace("description: ", "description: >-\n  ")
    parsed = read(text.encode() + b"\xff tail")
    assert "Größe, Länge, Maß, Höhe, Übung" in parsed.description
    assert codes(parsed) == ["encoding"]


def test_a_yaml_date_stays_the_text_that_was_written() -> None:  # field report 12
    parsed = front("name: pdf-tables\ndescription: Pull tables.\nmetadata:\n  updated: 2024-05-01\n  v: 1.10\n  x: no")
    assert parsed.front["metadata"] == {"updated": "2024-05-01", "v": "1.10", "x": "no"}
    assert parsed.problems == ()


@pytest.mark.parametrize("name", ["yes", "8004", "2024-05-01"])
def test_a_name_that_yaml_reads_as_something_else_is_kept_and_reported(name: str) -> None:
    parsed = read(f"---\nname: {name}\ndescription: Praise.\n---\nBody.\n", folder=name)
    assert parsed.name == name
    assert codes(parsed) == ["name-type"]
    assert read(f"---\nname: '{name}'\ndescription: Praise.\n---\nBody.\n", folder=name).problems == ()


def test_three_dashes_inside_a_value_or_the_body_are_no_fence() -> None:
    parsed = front("name: pdf-tables\ndescription: from a --- to b", "one\n\n---\n\ntwo --- three\n")
    assert parsed.description == "from a --- to b"
    assert parsed.body == "one\n\n---\n\ntwo --- three\n"
    assert parsed.problems == ()


def test_a_missing_name_is_reported_with_its_line_and_the_folder_stands_in() -> None:
    parsed = front("description: Pull tables.")
    assert parsed.name == "pdf-tables"
    [problem] = parsed.problems
    assert str(problem) == (
        "pdf-tables/SKILL.md:1: 'name' is missing; the folder's, 'pdf-tables', is used; "
        "add 'name: pdf-tables' to the front matter"
    )


@pytest.mark.parametrize("stated", ["", "description:", "description: ~", "description: >", 'description: ""'])
def test_a_missing_description_is_the_first_paragraph(stated: str) -> None:
    body = "# Title\n\n<!-- note -->\n![badge](x.png)\n\nPulls tables\nout of PDFs.\n\nMore.\n"
    parsed = front(f"name: pdf-tables\n{stated}", body)
    assert parsed.description == "Pulls tables out of PDFs."
    assert codes(parsed) == ["missing-description"]


def test_a_file_without_front_matter_is_one_problem() -> None:
    parsed = read("# PDF tables\n\nPulls tables out of PDFs.\n")
    assert (parsed.name, parsed.description) == ("pdf-tables", "Pulls tables out of PDFs.")
    assert codes(parsed) == ["no-front-matter"]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("\n\n" + GOOD, "late-front-matter"),
        ("<!-- licence -->\n" + GOOD, "late-front-matter"),
        ("# Title\n\n" + GOOD, "late-front-matter"),
        ("```markdown\n" + GOOD + "```\n", "late-front-matter"),
        (GOOD.replace("---\nname", "----\nname"), "opening-fence"),
        (GOOD.removeprefix("---\n"), "missing-opening-fence"),
        (GOOD.replace("files.\n---\n", "files.\n"), "missing-closing-fence"),
        (GOOD.replace("files.\n---\n", "files.\n  ---\n"), "closing-fence"),
        (GOOD.replace("files.\n---\n", "files.\n-----\n"), "closing-fence"),
        (GOOD.replace("files.\n---\n", "files.\n---"), "closing-fence"),
        ("--- name: pdf-tables description: Pull tables out of PDF files. ---\n# Steps\n", "one-line-front-matter"),
    ],
)
def test_a_broken_fence_is_reported_and_the_fields_are_read(text: str, code: str) -> None:
    parsed = read(text)
    assert (parsed.name, parsed.description) == ("pdf-tables", "Pull tables out of PDF files.")
    assert "# Steps" in parsed.body and "name:" not in parsed.body
    assert code in codes(parsed)


@pytest.mark.parametrize(
    ("lines", "description", "code"),
    [
        ("name: pdf-tables\ndescription: `pdf` files", "`pdf` files", "reserved-character"),
        ("name: pdf-tables\ndescription: @scope tool", "@scope tool", "reserved-character"),
        ('name: pdf-tables\ndescription: "never closed', "never closed", "quote"),
        ("name: pdf-tables\ndescription: - a list item", "- a list item", "reserved-character"),
        ("name: pdf-tables\ndescription: Tables\nlicense\nauthor: me", "Tables license", "yaml"),
        ("name = pdf-tables\ndescription = Tables.", "Tables.", "key-sign"),
        ("name：pdf-tables\ndescription：表格", "表格", "key-sign"),
        ("name: pdf-tables\ndescription: |\n  One: two.\n  Three\nbad: a: b", "One: two.\nThree", "unquoted-colon"),
        ("name: pdf-tables\ndescription: >\n  One: two,\n  three.\nbad: a: b", "One: two, three.", "unquoted-colon"),
        ("name: pdf-tables\ndescription: Tables.\n--- licence", "Tables.", "stray-fence"),
        ("name: pdf-tables\ndescription: Tables.\ndescription: Other.", "Tables.", "duplicate-key"),
        ("name: pdf-tables\nDescription: Tables.", "Tables.", "key-spelling"),
        ("name: pdf-tables\ndescription: [Tables, Forms]", "Tables, Forms", "description-type"),
        ("name: pdf-tables\ndescription:\n  what: Tables", "what: Tables", "description-type"),
    ],
)
def test_what_is_no_yaml_is_read_key_by_key(lines: str, description: str, code: str) -> None:
    parsed = front(lines)
    assert (parsed.name, parsed.description) == ("pdf-tables", description)
    assert code in codes(parsed)
    assert all(problem.line and problem.message and problem.remedy for problem in parsed.problems)


def test_a_tab_for_indentation_is_read() -> None:
    parsed = front("name: pdf-tables\ndescription: Tables.\nmetadata:\n\tauthor: me")
    assert parsed.description == "Tables." and parsed.front["metadata"] == {"author": "me"}
    assert codes(parsed) == ["yaml"]


def test_a_broken_description_does_not_take_the_metadata_with_it() -> None:
    parsed = front('name: pdf-tables\ndescription: a: b\nmetadata:\n  openclaw:\n    requires: {bins: ["jq"]}')
    assert [need.names for need in parsed.requires] == [("jq",)]


def test_all_problems_of_a_file_are_found_at_once_in_order_of_line() -> None:
    parsed = front(f"name: PDF Tables\ndescription: {'x' * 1025}\ncompatibility: {'y' * 501}\nallowed-tools: [Read]")
    assert codes(parsed) == ["name-characters", "description-too-long", "compatibility-too-long", "allowed-tools-type"]
    assert [problem.line for problem in parsed.problems] == [2, 3, 4, 5]
    assert "'PDF Tables'" in parsed.problems[0].message and "name: pdf-tables" in parsed.problems[0].remedy


def test_a_name_that_differs_from_its_folder_is_reported() -> None:
    [problem] = read(GOOD, folder="tables").problems
    assert problem.code == "name-differs-from-folder" and "'tables'" in problem.message


@pytest.mark.parametrize(("data", "code"), [
    (b"", "empty-file"), (b" \n\t\n", "empty-file"), (b"\x01\x02\x03\x04" * 99, "binary"),
    (b"---\nlicense: MIT\n---\n", "nothing-to-route"),
])  # fmt: skip
def test_a_file_with_nothing_to_route_on_is_listed_with_the_reason(data: bytes, code: str) -> None:
    parsed = read(data)
    assert not parsed.usable
    assert code in codes(parsed)


def test_a_rule_in_the_body_does_not_end_a_front_matter_that_never_ends() -> None:
    parsed = read("---\nname: pdf-tables\ndescription: Tables.\n\n# Steps\n\nOpen it.\n\n---\n\nMore.\n")
    assert codes(parsed) == ["missing-closing-fence"]
    assert parsed.body == "# Steps\n\nOpen it.\n\n---\n\nMore.\n"


def test_nul_bytes_are_left_out_and_reported() -> None:
    parsed = read(GOOD.replace("Pull", "P\0ull").encode())
    assert parsed.description == "Pull tables out of PDF files."
    assert codes(parsed) == ["control-characters"]


def test_a_template_in_braces_falls_back_on_the_folder() -> None:
    parsed = front("name: {{NAME}}\ndescription: Tables.")
    assert parsed.name == "pdf-tables" and codes(parsed) == ["name-type"]


def test_a_skill_that_only_a_person_may_call_is_manual_only() -> None:  # field report 9
    assert front("name: pdf-tables\ndescription: T.\ndisable-model-invocation: true").flags == {"manual-only"}
    assert front("name: pdf-tables\ndescription: T.\ndisable-model-invocation: no").flags == frozenset()


def test_when_to_use_is_listed_behind_the_description() -> None:
    parsed = front("name: pdf-tables\ndescription: Pull tables.\nwhen_to_use: A PDF has tables.")
    assert parsed.text_for_listing == "Pull tables. A PDF has tables."


def test_a_family_is_read_as_a_hint() -> None:
    assert front("name: pdf-tables\ndescription: T.\nmetadata:\n  metier-family: pdf").family == "pdf"


# ------------------------------------------------------------------------------------------------ hostile input

BAIT = [
    "---\nname: x\ndescription: " + "a" * 1_000_000,
    "---\n" + "- " * 500_000,
    "---\na: " + "[" * 500_000,
    "---\na: " + "{a: " * 250_000,
    "---\na: &a [x]\n" + "".join(f"{b}: &{b} [{','.join(['*' + a] * 9)}]\n" for a, b in pairwise("abcdefghi")),
    "--- " + " " * 1_000_000,
    "--- " + "a: " * 300_000 + "---",
    "---\n" + "x: y\n" * 250_000 + "---\n",
    "---\n---" + "\n---x" * 200_000,
    "<!--" * 250_000,
    "](" * 500_000,
    "](" + "a" * 200 + "](" * 100_000,
    "`" * 1_000_000,
    "---\nname: x\ndescription: " + "not for (" * 100_000 + "\n---\n",
    "---\nname: x\ndescription: " + "NOT for a. " * 90_000 + "\n---\n",
    "---\nname: x\ndescription: y\ncompatibility: " + "requires python or " * 50_000 + "\n---\n",
    "---\nname: x\ndescription: y\nallowed-tools: " + "Bash((" * 150_000 + "\n---\n",
    "---\nname: x\ndescription: y\n---\n" + "scripts/" * 120_000,
    "---\nname: x\ndescription: y\n---\n" + "scripts/a.b" * 90_000,
    "---\nname: x\ndescription: y\n---\n" + "```\n" * 250_000,
    "\r" * 1_000_000,
    "\t" * 500_000 + "---" + "\t" * 500_000,
    "---\nname: x\ndescription: |\n" + "  \n" * 300_000,
    "---\nname: '" + "''" * 400_000,
    "---\n? " * 200_000,
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(BAIT)))
def test_a_megabyte_of_bait_costs_bounded_time(number: int) -> None:
    from metier.library.mentions import mentioned

    parsed = read(BAIT[number], folder="x")  # with a quadratic pattern anywhere this line takes hours
    mentioned(parsed.body)
    assert parsed.name
    assert all(len(problem.message) < 400 for problem in parsed.problems)


def test_an_alias_bomb_is_read_as_text_and_reported() -> None:
    lines = ["a: &a [x,x,x,x,x,x,x,x,x]"]
    lines += [f"{b}: &{b} [{','.join(['*' + a] * 9)}]" for a, b in pairwise("abcdefgh")]
    parsed = front("name: pdf-tables\ndescription: Tables.\n" + "\n".join(lines))
    assert (parsed.name, parsed.description) == ("pdf-tables", "Tables.")
    assert parsed.problems


def test_a_huge_front_matter_is_cut_and_reported() -> None:
    parsed = front("name: pdf-tables\ndescription: Tables.\nnotes: |\n" + "  long line of notes\n" * 20_000)
    assert (parsed.name, parsed.description) == ("pdf-tables", "Tables.")
    assert "front-matter-too-long" in codes(parsed)


# -------------------------------------------------------------------------------------------------- properties

TEXTS = st.text(st.characters(blacklist_categories=("Cs", "Cc")), min_size=1, max_size=60)
PLAIN = TEXTS.filter(lambda text: text.strip() == text and not text.startswith("```"))
VALUES = st.recursive(
    TEXTS | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(string.ascii_lowercase, min_size=1), inner),
    max_leaves=6,
)


@given(st.binary(max_size=400))
@example(b"---\n")
@example(b"---\n---\n")
@example(b"---\n? !!binary x\n---\n")
@example(b"\xff\xfe")
@example(b"---\n*a: b\n---\n")
@settings(max_examples=200, deadline=None)
def test_any_bytes_never_raise(data: bytes) -> None:
    parsed = parse(data, path="x/SKILL.md", folder="x")
    assert parsed.name
    assert parsed.usable or parsed.problems
    assert all(problem.line >= 1 and problem.code and problem.message and problem.remedy for problem in parsed.problems)


SIGNS = ["-", "\n", ":", " ", "name", "description", "'", '"', "[", "{", "|", ">", "&a", "*a", "!", "#", "\t", "x",
         "\r", "\0", "…", "---\n", "- "]  # fmt: skip


@given(st.lists(st.sampled_from(SIGNS), max_size=60))
@settings(max_examples=200, deadline=None)
def test_any_arrangement_of_yaml_signs_never_raises(pieces: list[str]) -> None:
    assert read("---\n" + "".join(pieces)).name


@given(
    name=st.from_regex(r"[a-z0-9]{1,8}(-[a-z0-9]{1,8}){0,3}", fullmatch=True),
    description=PLAIN,
    body=st.text(st.characters(blacklist_categories=("Cs", "Cc"), whitelist_characters="\n\t"), max_size=80),
    extra=st.dictionaries(
        st.text(string.ascii_lowercase, min_size=1, max_size=8).map(lambda k: f"x-{k}"), VALUES, max_size=3
    ),
)
@settings(max_examples=120, deadline=None)
def test_a_well_formed_skill_round_trips(name: str, description: str, body: str, extra: dict[str, object]) -> None:
    written = Parsed(name, description, body, {"name": name, "description": description, **extra})
    parsed = read(render(written), folder=name)
    assert (parsed.name, parsed.description, parsed.body) == (name, description, body)
    again = read(render(parsed), folder=name)
    assert again == parsed
    assert yaml.safe_load(render(written).split("\n---\n")[0].removeprefix("---\n"))["name"] == name


@given(st.text(max_size=300))
@settings(max_examples=100, deadline=None)
def test_a_first_paragraph_is_one_line(body: str) -> None:
    assert "\n" not in first_paragraph(body)

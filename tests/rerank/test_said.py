import pytest
from tests.rerank.test_contrast import told

from metier.rerank.said import likeness, reading
from metier.rerank.terms import code, stem

MANY = "# Skill\n\nOne thing.\n\n- Open the report folder.\n- Count the pages of it.\n- Close the report.\n- {0}\n"


def pair(request: str, said: str, instead: str) -> tuple[list[float], list[bool]]:
    gain, clashes = told(MANY.format(said), MANY.format(instead), request)
    return gain.tolist(), clashes


@pytest.mark.parametrize(
    ("request_", "said", "instead"),
    [
        (
            "Write the dilution; volumes never exceed what the wells hold.",
            "Ensure volumes don't exceed well capacities",
            "Volumes above well capacities are split automatically",
        ),
        (
            "The container can't run as root.",
            "Containers MUST run as non-root users",
            "Containers run as the root user of the image",
        ),
        (
            "Ask me before touching GitHub.",
            "Always confirm before mutating GitHub state",
            "GitHub state may be changed without asking",
        ),
        (
            "Work on issue 60. Branches start from origin/main, and never work on one that is blocked.",
            "Base the branch on `origin/main`, never on local `main`",
            "Base the branch on whatever is checked out locally",
        ),
        (
            "Nothing has to fit in memory, stream it; reading BED as half-open.",
            "Stream data in batches without loading the full dataset into memory",
            "Reading the full dataset into memory comes before anything is streamed",
        ),
    ],
)
def test_agreeing_in_other_words_is_no_contradiction_and_gains_no_less(request_: str, said: str, instead: str) -> None:
    gain, clashes = pair(request_, said, instead)
    assert gain[0] >= gain[1] and not clashes[0]


def test_who_denies_another_thing_about_the_object_does_not_contradict_it() -> None:
    _, clashes = pair(
        "Scores from the script, please.",
        "Never blend the two scores of the script into one",
        "Average the two scores of the script into one",
    )
    assert clashes == [False, False]


def test_a_denial_at_the_opening_turns_the_whole_and_a_later_one_its_clause() -> None:
    whole = reading("Never build the report, from whatever source")
    part = reading("Build the report, never from the cache")
    assert whole.refuses and not part.refuses
    report, cache = code(stem("report")), code(stem("cache"))
    assert whole.denies(report) and not part.denies(report) and part.denies(cache)


def test_a_denial_is_a_word_of_its_own_however_it_is_written() -> None:
    announced = reading("Announce the release with no login")
    assert code(stem("release")) not in announced.turned and code(stem("login")) in announced.turned
    for text in ("DON'T delete rows", "Don’t delete rows", "don't delete rows"):
        assert reading(text).refuses and reading(text).denies(code(stem("delete")))


def test_the_head_of_a_denial_is_its_first_term() -> None:
    assert reading("Never blend the scores").heads == {code(stem("blend"))}
    assert reading("Blend the scores").heads == frozenset()


def test_likeness_is_the_share_of_words_in_common() -> None:
    assert likeness("a b", "b a") == 1.0 and likeness("a b", "c d") == 0.0

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.rerank.material import MESH, library, skill, slate

from metier.errors import EncoderError, LibraryError
from metier.models.replay import HashEncoder
from metier.rerank.cover import MOST, cover
from metier.rerank.extract import extract
from metier.rerank.keep import Graphs
from metier.rerank.witness import FIRST, Rerank
from metier.types import Slate

REQUEST = (
    "Weigh the STL mesh with numpy, density from the material table, at most 50 MB, without an external mesh library"
)
COPIES = {
    "valid": MESH,
    "tool": MESH.replace("`numpy`", "`trimesh`"),
    "number": MESH.replace("50 MB", "900 MB"),
    "step": MESH.replace("3. Look up the density in the material table.\n", ""),
    "denial": MESH.replace("never with", "always with"),
}


def names(done: Slate) -> list[str]:
    return [c.skill.name for c in done.candidates]


@pytest.mark.parametrize("seed", range(6))
def test_the_valid_skill_stands_first_among_its_near_copies_whatever_the_text_scores(seed: int) -> None:
    skills, graphs = library(COPIES)
    rng = random.Random(seed)
    order = rng.sample(list(skills.values()), len(skills))
    done = Rerank(graphs)(slate(REQUEST, order, [1.0 + rng.random() * 0.01 for _ in order]))
    assert names(done)[0] == "valid"


def test_a_contradicted_look_alike_never_ranks_above_an_uncontradicted_one() -> None:
    skills, graphs = library(COPIES)
    for favourite in COPIES:
        scores = [5.0 if name == favourite else 1.0 for name in skills]
        done = Rerank(graphs)(slate(REQUEST, list(skills.values()), scores))
        worth = [c.evidence[-1].score for c in done.candidates]
        assert all(w > 0.0 for w in worth[: worth.index(0.0)]) and all(w == 0.0 for w in worth[worth.index(0.0) :])
        assert {c.skill.name for c in done.candidates if c.evidence[-1].score == 0.0} == {"tool", "number", "denial"}


def test_the_evidence_reads_like_a_sentence_and_names_the_difference() -> None:
    skills, graphs = library(COPIES)
    done = Rerank(graphs)(slate(REQUEST, list(skills.values())))
    why = {c.skill.name: c.evidence[-1].why for c in done.candidates}
    assert why["valid"].startswith("covers ") and "; weakest: " in why["valid"] and ', via "' in why["valid"]
    assert "contradicts" in why["number"] and "900 MB" in why["number"] and "50 MB" in why["number"]
    detail = done.candidates[0].evidence[-1].detail
    assert 0.0 < detail["W"] <= 1.0 and len(detail["requirements"]) == len(detail["branches"]) == len(detail["via"])


def test_between_skills_that_are_nobodys_look_alike_the_text_score_stands() -> None:
    bodies = {
        f"s{i}": f"# S{i}\n\n- Do thing {i} with tool{i}.\n- Then check item {i}.\n- Report {i}.\n" for i in range(8)
    }
    skills, graphs = library(bodies)
    given_ = slate("use tool4 and check item 4", list(skills.values()))
    assert names(Rerank(graphs)(given_)) == names(given_)
    assert names(Rerank(graphs, general=5.0)(given_))[0] == "s4"


@given(st.integers(0, 1000))
@settings(max_examples=25, deadline=None)
def test_the_stage_keeps_candidates_and_evidence_and_does_not_depend_on_their_order(seed: int) -> None:
    rng = random.Random(seed)
    skills, graphs = library({**COPIES, **{f"o{i}": f"# O{i}\n\n- Weigh {i} meshes.\n" for i in range(14)}})
    chosen = rng.sample(list(skills.values()), rng.randint(1, len(skills)))
    before = slate(REQUEST, chosen, [rng.choice((0.5, 1.0, rng.random())) for _ in chosen])
    shuffled = Slate("r_1", before.task, tuple(rng.sample(before.candidates, len(chosen))))
    after, again = Rerank(graphs)(before), Rerank(graphs)(shuffled)
    assert after == again == Rerank(graphs)(before)
    assert {c.skill.id for c in after.candidates} == {s.id for s in chosen}
    earlier = {c.skill.id: c.evidence for c in before.candidates}
    assert all(c.evidence[:-1] == earlier[c.skill.id] and c.evidence[-1].stage == "rerank" for c in after.candidates)
    keys = [(-c.score, c.skill.id) for c in after.candidates]
    assert keys == sorted(keys)


@pytest.mark.parametrize("text", ["", "and the or", "!?"])
def test_a_request_without_requirements_changes_no_place(text: str) -> None:
    skills, graphs = library(COPIES)
    before = slate(text, list(skills.values()))
    done = Rerank(graphs)(before)
    assert [c.score for c in done.candidates] == [c.score for c in before.candidates]
    assert "no requirement" in done.candidates[0].evidence[-1].why
    assert Rerank(graphs)(Slate("r", before.task)).candidates == ()


def test_an_unreadable_skill_keeps_its_place_and_says_why() -> None:
    skills, _ = library(COPIES)

    def body(one: object) -> str:
        if one.name == "valid":  # type: ignore[attr-defined]
            raise LibraryError("gone")
        return COPIES[one.name]  # type: ignore[attr-defined]

    done = Rerank(Graphs(body))(slate(REQUEST, list(skills.values())))
    assert len(done.candidates) == len(skills)
    assert [c.evidence[-1].why for c in done.candidates if c.skill.name == "valid"] == [
        "no witness: its text could not be read"
    ]


def test_an_encoder_that_fails_leaves_the_words_to_decide() -> None:
    class Broken(HashEncoder):
        def encode(self, texts, *, kind):  # type: ignore[no-untyped-def]
            raise EncoderError("no model")

    skills, graphs = library(COPIES)
    done = Rerank(graphs, Broken())(slate(REQUEST, list(skills.values())))
    assert (
        names(done)[0] == "valid"
        and names(Rerank(graphs, HashEncoder())(slate(REQUEST, list(skills.values()))))[0] == "valid"
    )


def test_only_the_first_candidates_and_near_copies_are_read() -> None:
    bodies = {f"s{i:02d}": f"# S{i}\n\n- Job {i} here.\n- Other {i} job.\n- Third {i}.\n" for i in range(40)}
    bodies |= {"z1": MESH, "z2": MESH.replace("50 MB", "5 MB")}
    skills, _ = library(bodies)
    graphs = _Counting({s.id: bodies[name] for name, s in skills.items()})
    done = Rerank(graphs)(slate(REQUEST, list(skills.values())))
    assert graphs.read == {f"s{i:02d}" for i in range(FIRST)} | {"z1", "z2"}
    assert sum("not read" in c.evidence[-1].why for c in done.candidates) == len(bodies) - FIRST - 2


class _Counting(Graphs):
    """Graphs that remember whose were extracted."""

    def __init__(self, bodies: dict[str, str]) -> None:
        self.read: set[str] = set()

        def seen(one, body):  # type: ignore[no-untyped-def]
            self.read.add(one.name)
            return extract(one, body)

        super().__init__(lambda s: bodies[s.id], by_rules=seen)


def test_a_request_with_several_needs_gets_a_cover_of_at_most_three_skills() -> None:
    bodies = {
        "tables": "# Tables\n\n- Pull tables from the PDF report.\n- Check column totals.\n",
        "charts": "# Charts\n\n- Draw a bar chart of the quarterly revenue.\n- Label the axes in euros.\n",
        "mails": "# Mails\n\n- Draft a mail to the finance team.\n- Attach the workbook file.\n",
        "tables-too": "# Tables too\n\n- Pull tables from the PDF report.\n",
    }
    skills, graphs = library(bodies)
    request = (
        "Pull tables from the PDF report, check column totals, draw a bar chart of the quarterly revenue, "
        "label the axes in euros, draft a mail to the finance team, attach the workbook file."
    )
    done = Rerank(graphs)(slate(request, list(skills.values())))
    assert {c.split(":")[1] for c in done.cover} == {"tables", "charts", "mails"} and len(done.cover) <= MOST
    assert Rerank(graphs)(slate("Pull tables from the PDF report", list(skills.values()))).cover == ()


def test_a_cover_holds_no_two_look_alikes_and_starts_with_the_first() -> None:
    import numpy as np

    values = np.array([[1, 1, 0, 0, 0, 0], [0, 0, 1, 1, 0, 0], [0, 0, 0, 0, 1, 1.0]])
    assert cover(values, [0, 1, 2]) == (0, 1, 2)
    assert cover(values, [0, 1, 2], [[0, 1]]) == (0, 2)
    assert cover(values[:, :2], [0, 1, 2]) == () and cover(values, []) == ()


def test_configuration_is_in_the_repr() -> None:
    assert "lam=3.0" in repr(Rerank(Graphs(lambda s: ""), lam=3.0))
    assert skill("x").id == "given:x"

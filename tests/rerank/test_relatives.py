"""With the index's families at hand, only what can change places is read."""

from metier.rerank.extract import extract
from metier.rerank.keep import Graphs
from metier.rerank.witness import FIRST, PLAIN, Rerank
from metier.types import Candidate, Skill, Slate, Task, ranked

BODY = "# Steps\n1. Convert the report to {kind}.\n2. Keep at most 5 pages.\n"


def a_skill(n: int) -> Skill:
    return Skill(f"given:s{n}", f"s{n}", "Convert reports.", f"{n:064d}", "/s", "given", (f"/s/{n}",))


def test_beyond_the_first_only_members_of_one_family_are_read_and_the_right_one_wins() -> None:
    skills = [a_skill(n) for n in range(8)]
    read: list[str] = []

    def body(skill: Skill) -> str:
        read.append(skill.id)
        return BODY.format(kind="csv" if skill.id == "given:s7" else "pdf")

    slate = Slate("r", Task("convert the report to csv, not pdf"), ranked([Candidate(s, 1.0) for s in skills]))
    families = {"given:s6": "converters", "given:s7": "converters", "given:s5": "alone"}
    after = Rerank(Graphs(body, by_rules=extract), families=families)(slate)
    assert set(read) == {f"given:s{n}" for n in range(FIRST)} | {"given:s6", "given:s7"}
    places = [c.skill.id for c in after.candidates]
    assert places.index("given:s7") < places.index("given:s6")
    told = {c.skill.id: c.evidence[-1].why for c in after.candidates}
    assert PLAIN in told["given:s5"]

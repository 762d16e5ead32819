from pathlib import Path

from metier.evaluate.lookalikes import text_scores, witness_scores
from metier.evaluate.world import Goal, House, compared, follow, success, tasks
from metier.models.replay import HashEncoder
from metier.rerank.keep import Graphs
from metier.rerank.witness import Rerank


def test_following_the_valid_skill_reaches_the_goal_and_no_near_copy_does() -> None:
    for goal, pair in tasks(60, seed=1):
        for candidate in pair.candidates:
            reached = follow(candidate.body, House({goal.thing: goal.source})).holds(goal)
            assert reached is (candidate.operator is None)


def test_steps_that_cannot_be_done_are_left_out() -> None:
    house = follow("1. Heat the egg in the oven for 3 minutes.\n2. Put the egg on the desk.\n", House({"egg": "shelf"}))
    assert house.where == {"egg": "shelf"} and not house.done
    goal = Goal("egg", "shelf", "desk", "heated", "oven", 3, False)
    text = (
        "Take the egg from the shelf.\nHeat the egg in the oven for 3 minutes.\n"
        "Do not cover the egg.\nPut the egg on the desk."
    )
    assert follow(text, House({"egg": "shelf"})).holds(goal)
    assert not follow(text.replace("3 minutes", "5 minutes"), House({"egg": "shelf"})).holds(goal)


def test_a_tie_is_worth_the_share_of_its_members_that_succeed() -> None:
    goal, pair = tasks(1, seed=2)[0]
    assert success(goal, pair, [1.0] * 4) == 0.25
    best = [1.0 if c.operator is None else 0.0 for c in pair.candidates]
    assert success(goal, pair, best) == 1.0 and success(goal, pair, [-v for v in best]) == 0.0


def test_the_witness_chooses_skills_that_succeed_more_often_than_text_does(tmp_path: Path) -> None:
    made = tasks(60, seed=0)
    pairs, encoder = [pair for _, pair in made], HashEncoder()
    text = text_scores(pairs, [], lambda s: "", encoder, tmp_path / "index", tmp_path / "vectors")
    bodies = {c.skill.id: c.body for p in pairs for c in p.candidates}
    ours, _ = witness_scores(pairs, text, Rerank(Graphs(lambda s: bodies[s.id]), encoder))
    by_text, by_witness, difference = compared(made, text, ours)
    assert by_witness > by_text and difference.low > 0.0

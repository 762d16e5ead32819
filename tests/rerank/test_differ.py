from tests.rerank.material import MESH, skill

from metier.rerank.differ import difference, differences, near_copies
from metier.rerank.extract import extract


def graph(body: str, name: str = "mesh"):  # type: ignore[no-untyped-def]
    return extract(skill(name, body), body)


def test_the_difference_of_two_look_alikes_is_named_in_their_words() -> None:
    said = difference(graph(MESH), graph(MESH.replace("50 MB", "500 MB")))
    assert said == '"The file must not exceed 50 MB." against "The file must not exceed 500 MB."'


def test_what_only_one_says_is_named_with_its_skill() -> None:
    less = MESH.replace("3. Look up the density in the material table.\n", "")
    assert difference(graph(MESH), graph(less)) == 'only mesh says "Look up the density in the material table."'


def test_hard_differences_come_before_wording_and_equal_skills_have_none() -> None:
    other = MESH.replace("30 seconds", "30 hours").replace("every connected component", "each connected component")
    found = differences(graph(MESH), graph(other))
    assert [d.hard for d in found] == [True, False] and "30 hours" in found[0].other
    assert differences(graph(MESH), graph(MESH)) == [] and difference(graph(MESH), graph(MESH)) == ""


def test_near_copies_share_half_of_what_the_longer_one_says() -> None:
    assert near_copies(graph(MESH), graph(MESH.replace("50 MB", "500 MB")))
    assert not near_copies(graph(MESH), graph("# Tea\n\n- Boil the water.\n", "tea"))


def test_what_differs_late_is_within_what_is_shown() -> None:
    long = "Answers are personal data and stay in the working folder of the person who asked for them, {0} for good."
    said = difference(graph(f"# A\n\n{long.format('never')}\n"), graph(f"# A\n\n{long.format('always')}\n"))
    assert said == '"… asked for them, never for good." against "… asked for them, always for good."'

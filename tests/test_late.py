"""Late dataclasses and patterns against the originals: the same answers, only the moment differs."""

import copy
import dataclasses
import importlib
import inspect
import pickle
import pkgutil
import subprocess
import sys
from dataclasses import dataclass as original
from dataclasses import field

import pytest
from hypothesis import given
from hypothesis import strategies as st

import metier
from metier import late
from metier.types import Requirement, Skill, Verdict


def noun(decorate):  # type: ignore[no-untyped-def]
    class Noun:
        """Fields of every kind that metier uses."""

        one: int
        two: str = "two"
        three: tuple[int, ...] = ()
        four: list[int] = field(default_factory=list, repr=False, compare=False)
        name: str = field(default="noun", init=False)

        def __post_init__(self) -> None:
            if self.one < 0:
                raise ValueError("one")

    return decorate(Noun)


KINDS = [
    {"frozen": True, "slots": True},
    {"frozen": True},
    {"slots": True},
    {"frozen": True, "slots": True, "eq": False},
]


@pytest.mark.parametrize("kind", KINDS)
@given(one=st.integers(0, 3), two=st.sampled_from(["two", "2"]), three=st.tuples(st.integers(0, 1)))
def test_a_late_dataclass_is_built_shown_compared_and_hashed_as_the_original(kind, one, two, three):  # type: ignore[no-untyped-def]
    if kind.get("slots"):
        kind = {**kind}
    mine, theirs = noun(late.dataclass(**kind)), noun(original(**kind))
    a, b = mine(one, two, three=three), theirs(one, two, three=three)
    assert repr(a) == repr(b)
    assert (a == mine(one, "2", three)) == (b == theirs(one, "2", three))
    assert (mine.__hash__ is None) == (theirs.__hash__ is None)
    if kind.get("frozen") and kind.get("eq", True):
        assert hash(a) == hash(b)
    assert a != b
    assert a.four == [] and a.four is not mine(one).four


@pytest.mark.parametrize("kind", KINDS)
def test_a_late_dataclass_says_of_itself_what_the_original_says(kind):  # type: ignore[no-untyped-def]
    mine, theirs = noun(late.dataclass(**kind)), noun(original(**kind))
    assert mine.__match_args__ == theirs.__match_args__
    assert [f.name for f in dataclasses.fields(mine)] == [f.name for f in dataclasses.fields(theirs)]
    assert inspect.signature(mine) == inspect.signature(theirs)
    assert dataclasses.replace(mine(1), two="x").two == "x"
    assert dataclasses.asdict(mine(1)) == dataclasses.asdict(theirs(1))
    assert hasattr(mine(1), "__dict__") == hasattr(theirs(1), "__dict__")


@pytest.mark.parametrize("kind", KINDS)
def test_wrong_arguments_and_post_init_are_heard_as_in_the_original(kind):  # type: ignore[no-untyped-def]
    mine, theirs = noun(late.dataclass(**kind)), noun(original(**kind))
    for wrong in ((), (1, "a", (), [], 5), (-1,)):
        said = []
        for each in (mine, theirs):
            with pytest.raises((TypeError, ValueError)) as error:
                each(*wrong)
            said.append(type(error.value))
        assert said[0] is said[1]


def test_what_is_frozen_cannot_be_set_or_deleted() -> None:
    verdict = Verdict("offer", "no-evidence")
    with pytest.raises(dataclasses.FrozenInstanceError):
        verdict.level = "load"  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        del verdict.level  # type: ignore[misc]


def test_a_noun_is_copied_and_pickled_whole() -> None:
    skill = Skill("given:a", "a", "b", "c", "/", "given", ("/a",), requires=(Requirement("bin", ("x",), True, "s"),))
    assert copy.deepcopy(skill) == pickle.loads(pickle.dumps(skill)) == skill


def test_every_late_dataclass_of_metier_is_one_that_the_standard_library_would_make_too() -> None:
    seen = 0
    for info in pkgutil.walk_packages(metier.__path__, "metier."):
        if info.name.split(".")[1] in ("edge", "evaluate"):
            continue
        for value in vars(importlib.import_module(info.name)).values():
            if isinstance(value, type) and value.__module__ == info.name and "__dataclass_fields__" in vars(value):
                assert dataclasses.is_dataclass(value) and dataclasses.fields(value) is not None
                assert list(inspect.signature(value).parameters) == [
                    f.name for f in dataclasses.fields(value) if f.init
                ]
                seen += 1
    assert seen > 60


def test_a_late_pattern_answers_as_the_compiled_one() -> None:
    import re

    mine, theirs = late.pattern(r"(?P<a>\d+)", re.I), re.compile(r"(?P<a>\d+)", re.I)
    assert mine.findall("1 22") == theirs.findall("1 22") and mine.sub("x", "1 22") == "x x"
    assert mine.pattern == theirs.pattern and mine.flags == theirs.flags
    with pytest.raises(re.error):
        late.pattern("(").match("")


def test_importing_the_nouns_writes_no_method_and_compiles_no_pattern() -> None:
    code = (
        "import metier.late\n"
        "def stop(*a, **k): raise SystemExit('early')\n"
        "metier.late._whole = metier.late.pattern.__getattr__ = stop\n"
        "import metier.types, metier.text, metier.retrieve.names, metier.rerank.witness, metier.gate.decide\n"
        "print(metier.types.Step)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "metier.types.Step" in done.stdout, done.stderr


def test_every_pattern_that_is_compiled_late_compiles() -> None:
    seen = 0
    for info in pkgutil.walk_packages(metier.__path__, "metier."):
        if info.name.split(".")[1] in ("edge", "evaluate"):
            continue
        for value in vars(importlib.import_module(info.name)).values():
            if isinstance(value, late.pattern):  # type: ignore[arg-type]
                assert value.pattern is not None
                seen += 1
    assert seen > 50


def test_a_noun_is_replaced_as_the_standard_library_replaces_it() -> None:
    skill = Skill("given:a", "a", "b", "c", "/", "given", ("/a",))
    assert late.replace(skill, name="x") == dataclasses.replace(skill, name="x")
    assert late.replace(noun(original(frozen=True))(1), two="x").two == "x"
    mine = noun(late.dataclass(frozen=True))
    for one in range(5):  # filled at first, by its own `__init__` later
        assert late.replace(mine(one), two="x") == mine(one, "x")
    with pytest.raises(TypeError):
        late.replace(mine(1), nothing=1)
    with pytest.raises(ValueError, match="one"):
        late.replace(mine(1), one=-1)


def test_a_late_pattern_can_be_copied_and_pickled_before_it_is_used() -> None:
    for made in (copy.copy(late.pattern("a(b)")), pickle.loads(pickle.dumps(late.pattern("a(b)")))):
        assert made.fullmatch("ab")[1] == "b"


@pytest.mark.parametrize("decorate", [late.dataclass, original])
def test_a_default_that_all_objects_would_share_is_refused(decorate) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match="mutable default"):
        decorate(type("Shared", (), {"__annotations__": {"v": "list"}, "v": []}))


@pytest.mark.parametrize("change", [late.replace, dataclasses.replace])
def test_what_is_no_argument_cannot_be_replaced(change) -> None:  # type: ignore[no-untyped-def]
    made = noun(late.dataclass(frozen=True))(1)
    with pytest.raises((ValueError, TypeError), match="name"):
        change(made, name="other")

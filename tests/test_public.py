"""The public names are what the documents promise, and every one says what it is."""

import dataclasses
import inspect

import metier
from metier import errors, types

PROMISED = {
    "scan", "open", "Router", "Skill", "Problem", "Library", "Profile", "Task", "Evidence", "Verdict", "Candidate",
    "Slate", "Route", "Outcome", "Event", "Config", "Requirement", "Step", "Stage", "Encoder", "LLM", "MetierError",
}  # fmt: skip


def test_exactly_the_promised_names_are_exported() -> None:
    assert set(metier.__all__) == PROMISED
    assert all(hasattr(metier, name) for name in metier.__all__)


def test_every_exported_name_says_what_it_is() -> None:
    assert [name for name in metier.__all__ if not inspect.getdoc(getattr(metier, name))] == []


def test_every_noun_is_frozen_and_slotted() -> None:
    nouns = [n for n in vars(types).values() if dataclasses.is_dataclass(n)]
    assert len(nouns) >= 16
    for noun in nouns:
        assert noun.__dataclass_params__.frozen, noun  # type: ignore[attr-defined]
        assert hasattr(noun, "__slots__"), noun


def test_the_error_tree_in_the_docstring_is_the_tree_of_the_classes() -> None:
    drawn = {line.strip("│├└─ ").split()[0] for line in (errors.__doc__ or "").splitlines() if "──" in line}
    classes = {n for n, c in vars(errors).items() if inspect.isclass(c) and issubclass(c, errors.MetierError)}
    assert drawn | {"MetierError"} == classes


def test_the_version_is_that_of_the_installed_package() -> None:
    from importlib.metadata import version

    assert metier.__version__ == version("metier")

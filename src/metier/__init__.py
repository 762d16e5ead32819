"""metier routes an AI agent's task to the right skill, and loads it only when it will help.

    library = metier.scan("~/.claude/skills")          # folders of SKILL.md → Library
    router = metier.open(library)                      # builds or loads the index
    route = router.route("fill in this PDF form", tools={"bash", "python"})
    print(route.text)                                  # cards, a body, or nothing

The names below are the public ones. Each is imported when it is first used: a hook starts on every prompt.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from metier.assemble import open, scan
    from metier.errors import MetierError
    from metier.router import Router
    from metier.types import (
        LLM,
        Candidate,
        Config,
        Encoder,
        Event,
        Evidence,
        Library,
        Outcome,
        Problem,
        Profile,
        Requirement,
        Route,
        Skill,
        Slate,
        Stage,
        Step,
        Task,
        Verdict,
    )

__all__ = [
    "LLM", "Candidate", "Config", "Encoder", "Event", "Evidence", "Library", "MetierError", "Outcome", "Problem",
    "Profile", "Requirement", "Route", "Router", "Skill", "Slate", "Stage", "Step", "Task", "Verdict", "open", "scan",
]  # fmt: skip
__version__ = "0.1.0"

_HOMES = {"open": "assemble", "scan": "assemble", "MetierError": "errors", "Router": "router"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'metier' has no attribute '{name}'")
    from importlib import import_module

    value = getattr(import_module(f"metier.{_HOMES.get(name, 'types')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]

"""What a language model writes for retrieval, where one is configured and was seen to help here (SkillRep, 1.1–1.3a).

Offline the requests that `metier expand` kept, online hypothetical skills; each only under a verdict that `metier
expand --qualify` kept for this very model, prompt and encoder. Everywhere else the row's weight is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from metier.errors import ConfigError, MetierError, StoreError
from metier.late import dataclass
from metier.store import Store
from metier.types import Config, Encoder, Skill

if TYPE_CHECKING:
    from metier.models.llm import ChatLLM
    from metier.retrieve.expand import Hypothetical
    from metier.retrieve.qualify import Kind


@dataclass(frozen=True, slots=True)
class Written:
    """Requests written for the skills of a library, and a mark that changes when there are others."""

    requests: Callable[[Skill], Sequence[str]] | None = None
    mark: str = ""


def model(config: Config, store: Store, warnings: list[str]) -> ChatLLM | None:
    """The configured language model, or None; a setting that names none becomes a warning. Nothing is sent."""
    if not config.llm:
        return None
    from metier.models.llm import open_llm

    try:
        return open_llm(config.llm, store)
    except ConfigError as error:
        warnings.append(f"no language model is used: {error}")
        return None


def hypothetical(llm: ChatLLM | None, store: Store, encoder: Encoder | None, seconds: float) -> Hypothetical | None:
    """Request → hypothetical skills within `seconds`, or None where the model is not qualified for them (step 8)."""
    if llm is None or encoder is None or not _qualified(llm, store, encoder, "skills"):
        return None
    from metier.retrieve.expand import Hypothetical, Kept

    return Hypothetical(llm, seconds, Kept(store, llm.name))


def written(llm: ChatLLM | None, store: Store, encoder: Encoder, body: Callable[[Skill], str]) -> Written:
    """What the index is built with (steps 2 and 3); nothing where the model is not qualified for it."""
    if llm is None or not _qualified(llm, store, encoder, "requests"):
        return Written()
    from metier.retrieve.expand import kept_requests

    asked = kept_requests(store, llm.name, body)

    def requests(skill: Skill) -> Sequence[str]:
        try:
            return asked(skill)
        except (MetierError, OSError):  # a body that is gone: the build itself says so
            return ()

    news = store.rows(
        "SELECT count(*) AS n, max(at) AS at FROM expansions WHERE kind = 'requests' AND model = ?", (llm.name,)
    )[0]
    return Written(requests, f"{llm.name} {news['n']} {news['at']}") if news["n"] else Written()


def _qualified(llm: ChatLLM, store: Store, encoder: Encoder, kind: Kind) -> bool:
    from metier.retrieve.qualify import qualified
    from metier.retrieve.vectors import identity

    try:
        verdict = qualified(store, llm.name, identity(encoder.profile), kind)
    except StoreError:  # a home that cannot be read remembers no verdict
        return False
    return verdict is not None and verdict.passed

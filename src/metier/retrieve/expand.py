"""Expansion on both sides: requests that a skill answers, skills that a request asks for (SkillRep, steps 2, 3, 8, 9).

    d ← unit((1 − w_d)·d + w_d·mean_j unit(encode_query(request_j)))            w_d = 0.2      offline
    q ← unit((1 − w_q)·q + w_q·mean_j unit(encode_document(hypothetical_j)))    w_q = 0.3      online, within a deadline

Without a language model both are left out, or documents move toward the mean of many ordinary requests (rule 1.1). The
vectors are made where the index is built and where a route is answered; here is what is written, kept and waited for.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import resources
from typing import TYPE_CHECKING, Any

import numpy as np

from metier.errors import MetierError
from metier.store import Store
from metier.text import fingerprint
from metier.types import LLM, Skill

if TYPE_CHECKING:
    from metier.types import Vectors

TEXTS = 2  # SkillRep: two texts a side (HySkill measured K = 2 ≈ K = 4 at half the tokens, rule 1.2)
BODY_CHARS = 6000
"""Of a body shown to the model: about 1,500 tokens, where most skills have said what they are for."""
REQUEST_CHARS = 6000
FAILED_KEPT = 64  # [ours] reasons of failures that nobody has asked for yet

_FENCE = re.compile(r"^(```|~~~).*?^\1[^\n]*$", re.M | re.S)
_FRONT = re.compile(r"\A\s*---\n.*?\n---\s*\n", re.S)
_TEXT = {"type": "string", "minLength": 8, "maxLength": 2000}
REQUESTS_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"requests": {"type": "array", "items": _TEXT, "minItems": 1, "maxItems": 4}},
    "required": ["requests"],
    "additionalProperties": False,
}
SKILLS_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "skills": {
            "type": "array",
            "minItems": 1,
            "maxItems": 4,
            "items": {
                "type": "object",
                "properties": {"name": {"type": "string"}, "description": {"type": "string"}, "body": _TEXT},
                "required": ["name", "description", "body"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["skills"],
    "additionalProperties": False,
}


def prompt(name: str) -> str:
    """The prompt `requests` or `skills`."""
    return (resources.files("metier.retrieve") / "prompts" / f"{name}.md").read_text(encoding="utf-8")


def prompt_digest(name: str) -> str:
    """What changes with the prompt: 12 hex digits, part of every key (rule 1.3)."""
    return fingerprint(prompt(name))[:12]


def plain(text: str) -> str:
    """The text without front matter and code fences (rule 1.3); itself where nothing else is in it."""
    bare = re.sub(r"\n{3,}", "\n\n", _FENCE.sub("", _FRONT.sub("", text))).strip()
    return bare or text.strip()


def requests_prompt(skill: Skill, body: str, count: int = TEXTS) -> str:
    """What the model is asked about a skill."""
    shown = f"{skill.name}: {skill.description}\n\n{plain(body)[:BODY_CHARS]}"
    return prompt("requests").format(count=count, skill=shown)


def skills_prompt(request: str, count: int = TEXTS) -> str:
    """What the model is asked about a request."""
    return prompt("skills").format(count=count, request=request[:REQUEST_CHARS])


def write_requests(llm: LLM, skill: Skill, body: str) -> tuple[str, ...]:
    """Up to two requests that the skill answers (step 2). Raises `LLMError`."""
    return read_requests(llm.complete(requests_prompt(skill, body), schema=REQUESTS_SCHEMA))


def read_requests(answer: Any) -> tuple[str, ...]:
    """The requests of an answer, without repetition."""
    return tuple(dict.fromkeys(" ".join(text.split()) for text in answer["requests"]))[:TEXTS]


def write_skills(llm: LLM, request: str) -> tuple[str, ...]:
    """Up to two hypothetical skills for a request (step 8). Raises `LLMError`."""
    return read_skills(llm.complete(skills_prompt(request), schema=SKILLS_SCHEMA))


def read_skills(answer: Any) -> tuple[str, ...]:
    """The hypothetical skills of an answer, as texts that may be encoded."""
    return given_skills([f"{s['name']}: {s['description']}\n\n{s['body']}" for s in answer["skills"]])


def given_skills(texts: Sequence[str]) -> tuple[str, ...]:
    """Hypothetical skills as they may be encoded: plain, not empty, at most two."""
    return tuple(dict.fromkeys(filter(None, map(plain, texts))))[:TEXTS]


# ---------------------------------------------------------------------------------------------- vectors


def moved(vectors: Vectors, toward: Vectors, weight: float) -> Vectors:
    """float32 rows unit((1 − w)·v + w·t); a row of zeros in `toward` leaves its vector as it is (steps 3 and 9)."""
    absent = ~np.any(toward, axis=-1, keepdims=True)
    mixed = np.where(absent, vectors, (1 - weight) * vectors + weight * toward)
    length = np.linalg.norm(mixed, axis=-1, keepdims=True)
    result: Vectors = np.divide(mixed, length, out=np.zeros_like(mixed), where=length > 0).astype(np.float32)
    return result


# ---------------------------------------------------------------------------------------------- kept and waited for


@dataclass(frozen=True, slots=True)
class Kept:
    """What one model wrote, in the store: texts by what they were written for. Another prompt is another key."""

    store: Store
    model: str

    def key(self, kind: str, text: str) -> str:
        """Fingerprint of model, prompt and text (rule 1.3)."""
        return fingerprint(self.model, prompt_digest(kind), text)

    def get(self, kind: str, text: str) -> tuple[str, ...] | None:
        """The texts kept for it, or None."""
        found = self.store.rows("SELECT texts FROM expansions WHERE key = ?", (self.key(kind, text),))
        return tuple(json.loads(found[0]["texts"])) if found else None

    def put(self, kind: str, text: str, texts: Sequence[str], *, subject: str = "") -> None:
        """The texts are kept."""
        row = (
            self.key(kind, text),
            kind,
            self.model,
            subject,
            json.dumps(list(texts), ensure_ascii=False),
            time.time(),
        )
        self.store.write("INSERT OR REPLACE INTO expansions VALUES (?, ?, ?, ?, ?, ?)", row)

    def requests(self, skill: Skill, body: str) -> tuple[str, ...]:
        """The requests kept for a skill as it is now; none where its text has changed since."""
        return self.get("requests", skill_text(skill, body)) or ()


def skill_text(skill: Skill, body: str) -> str:
    """What a skill's requests depend on."""
    return f"{skill.name}\n{skill.description}\n{body}"


@dataclass(slots=True)
class Hypothetical:
    """Request → hypothetical skills, from memory, the store or the model, within `deadline` seconds (step 8).

    An answer that comes too late is still kept: the same request has it next time. No failure of the model reaches the
    route; `why` says what came of this thread's last request where nothing did.
    """

    llm: LLM
    deadline: float
    kept: Kept | None = None
    _under_way: dict[str, threading.Thread] = field(default_factory=dict)
    _fresh: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _failed: dict[str, str] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _last: threading.local = field(default_factory=threading.local)

    @property
    def why(self) -> str:
        """Why the last request of this thread has no hypothetical skills; empty where it has some."""
        return str(getattr(self._last, "why", ""))

    def __call__(self, request: str) -> tuple[str, ...]:
        with self._lock:
            known = self._fresh.get(request)
        if known is None and self.kept is not None:
            known = self.kept.get("skills", request)
        if known is not None:
            self._last.why = "" if known else "the language model had nothing to add"
            return known
        with self._lock:
            worker = self._under_way.get(request)
            if worker is None:
                worker = threading.Thread(target=self._work, args=(request,), daemon=True, name="metier-expand")
                self._under_way[request] = worker
                worker.start()
        worker.join(self.deadline)
        with self._lock:
            answer = self._fresh.get(request)
            failed = self._failed.pop(request, f"the language model did not answer within {self.deadline:g} s")
        self._last.why = "" if answer else failed
        return answer or ()

    def _work(self, request: str) -> None:
        answer: tuple[str, ...] = ()
        try:
            answer = write_skills(self.llm, request)
            if self.kept is not None:
                self.kept.put("skills", request, answer)
            if not answer:
                self._fail(request, "the language model had nothing to add")
        except MetierError as error:
            self._fail(request, str(error))
        finally:
            with self._lock:
                if answer:
                    self._fresh[request] = answer
                self._under_way.pop(request, None)

    def _fail(self, request: str, why: str) -> None:
        """Told to whoever waits; of those that nobody waits for any more only so many are kept."""
        with self._lock:
            if len(self._failed) >= FAILED_KEPT:
                self._failed.clear()
            self._failed[request] = why


Requests = Callable[[Skill], Sequence[str]]


def kept_requests(store: Store, model: str, body: Callable[[Skill], str]) -> Requests:
    """What the index is built with: a skill's kept requests (step 2); none for a skill whose text has changed."""
    kept = Kept(store, model)
    return lambda skill: kept.requests(skill, body(skill))

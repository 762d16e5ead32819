"""A chat model behind any OpenAI-compatible endpoint, as a function from a prompt to JSON (hosted, vLLM, Ollama, …).

Every answer is valid under its schema or is an error; an answer that is not gets one chance of repair. Answers are kept
in the store under what they are an answer to, so an interrupted piece of work goes on where it was and a repeated one
costs nothing (rule 1.3). Keys come from the environment only and are never written, logged or shown.
"""

from __future__ import annotations

import json
import os
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any

from metier.errors import BudgetSpent, ConfigError, LLMError, MissingExtra
from metier.models.answers import parsed, valid
from metier.models.spending import Budget, Estimate, Ledger, Paid
from metier.store import Store
from metier.text import count_tokens, fingerprint, one_line

KEYS = ("METIER_LLM_KEY", "OPENAI_API_KEY")
"""Environment variables that may hold the key, the first one set is used; servers on this machine need none."""
TEMPERATURE = 0.3  # SkillRep: requests and hypothetical skills are drawn at 0.3
RECEIVED = 700
"""Tokens an answer may have: two hypothetical skills of 200 words and their JSON."""
TRIES = 5
FIRST_WAIT = 0.5
"""Seconds before the second try; each further one waits twice as long, with jitter, or as long as the server asks."""
LONGEST_WAIT = 60.0
TIMEOUT = 120.0
"""Seconds for one answer: a small model on a laptop needs a minute for a few hundred tokens."""
AT_ONCE = 4
"""Calls under way together; one for each request slot that small local servers have by default."""
MARGIN = 1.25
"""Estimates of tokens are raised by this: the true tokenizer is the server's."""

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Ask:
    """One question."""

    prompt: str
    schema: Mapping[str, Any]
    sample: int = 0


@dataclass(slots=True)
class Pace:
    """At most `per_minute` calls begin within any minute; 0 is no bound."""

    per_minute: int = 0
    clock: Clock = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    _begun: list[float] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def turn(self) -> None:
        """Returns when the next call may begin."""
        if not self.per_minute:
            return
        with self._lock:
            while True:
                now = self.clock()
                self._begun = [at for at in self._begun if now - at < 60.0]
                if len(self._begun) < self.per_minute:
                    self._begun.append(now)
                    return
                self.sleep(60.0 - (now - self._begun[0]))


class ChatLLM:
    """`model` at `url`. Safe to share between threads; nothing is imported or sent before the first question."""

    def __init__(
        self,
        model: str,
        url: str,
        store: Store | None,
        *,
        temperature: float = TEMPERATURE,
        budget: Budget | None = None,
        at_once: int = AT_ONCE,
        per_minute: int = 0,
        received: int = RECEIVED,
        timeout: float = TIMEOUT,
        sleep: Callable[[float], None] = time.sleep,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.model, self.url, self.store, self.temperature = model, url, store, temperature
        self.ledger = Ledger(budget or Budget())
        self.at_once, self.received, self.timeout = max(1, at_once), received, timeout
        self.pace = Pace(per_minute, sleep=sleep)
        self._sleep = sleep
        self._env = os.environ if env is None else env
        self._lock = threading.Lock()
        self._client: Any = None
        self._plain = False
        """Whether the server refused JSON schemas: the schema is then stated in words only."""

    @property
    def name(self) -> str:
        """`MODEL@URL`."""
        return f"{self.model}@{self.url}"

    def __repr__(self) -> str:
        return f"ChatLLM({self.name!r}, temperature={self.temperature})"

    def key(self, ask: Ask) -> str:
        """What an answer is kept under: model, temperature, schema, prompt and sample (rule 1.3)."""
        schema = json.dumps(ask.schema, sort_keys=True, ensure_ascii=False)
        return fingerprint(self.name, repr(self.temperature), schema, ask.prompt, str(ask.sample))

    def complete(self, prompt: str, *, schema: Mapping[str, Any], sample: int = 0) -> Mapping[str, Any]:
        """An object valid under `schema`. Raises `LLMError`, or `BudgetSpent` before anything is sent."""
        ask = Ask(prompt, schema, sample)
        key = self.key(ask)
        kept = self._kept(key)
        if kept is not None:
            self.ledger.hit()
            return kept
        answer, sent, received = self._answered(ask)
        if self.store is not None:
            self.store.write(
                "INSERT OR REPLACE INTO llm_answers VALUES (?, ?, ?, ?, ?, ?)",
                (key, self.name, json.dumps(answer, ensure_ascii=False), sent, received, time.time()),
            )
        return answer

    def each(
        self, asks: Sequence[Ask], *, progress: Callable[[int], None] | None = None
    ) -> Iterator[tuple[int, Mapping[str, Any] | LLMError]]:
        """(place, answer or its error) as they come, several under way at once. `BudgetSpent` ends it after those
        under way are in; what came before is kept, so calling it again goes on from there."""
        spent: BudgetSpent | None = None
        done = 0
        with ThreadPoolExecutor(self.at_once, thread_name_prefix="metier-llm") as pool:
            waiting: dict[Future[Mapping[str, Any]], int] = {}
            places = iter(range(len(asks)))
            try:
                while True:
                    while spent is None and len(waiting) < self.at_once and (place := next(places, None)) is not None:
                        ask = asks[place]
                        waiting[pool.submit(self.complete, ask.prompt, schema=ask.schema, sample=ask.sample)] = place
                    if not waiting:
                        break
                    for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                        place, error = waiting.pop(future), future.exception()
                        if isinstance(error, BudgetSpent):
                            spent = error
                            continue
                        if error is not None and not isinstance(error, LLMError):
                            raise error
                        done += 1
                        if progress is not None:
                            progress(done)
                        yield place, error if isinstance(error, LLMError) else future.result()
            finally:
                for future in waiting:
                    future.cancel()
        if spent is not None:
            raise spent

    def estimate(self, asks: Sequence[Ask]) -> Estimate:
        """What `asks` will cost at most. Nothing is sent."""
        fresh = [ask for ask in asks if self._kept(self.key(ask)) is None]
        sent = sum(self._tokens(ask.prompt) for ask in fresh)
        received = len(fresh) * self.received
        return Estimate(len(fresh), len(asks) - len(fresh), sent, received, self.ledger.budget.cost(sent, received))

    def _kept(self, key: str) -> Mapping[str, Any] | None:
        if self.store is None:
            return None
        found = self.store.rows("SELECT answer FROM llm_answers WHERE key = ?", (key,))
        return json.loads(found[0]["answer"]) if found else None

    def _answered(self, ask: Ask) -> tuple[Mapping[str, Any], int, int]:
        messages = [{"role": "user", "content": ask.prompt}]
        text, sent, received = self._said(messages, ask)
        answer, wrong = _checked(text, ask.schema)
        if wrong is not None:
            messages += [
                {"role": "assistant", "content": text},
                {
                    "role": "user",
                    "content": f"That is not what was asked for: {wrong}. Answer with the JSON object only.",
                },
            ]
            text, more_sent, more_received = self._said(messages, ask)
            sent, received = sent + more_sent, received + more_received
            answer, wrong = _checked(text, ask.schema)
        if wrong is not None:
            raise LLMError(
                f"{self.name}: the answer is not valid after one repair: {wrong}; it began {one_line(text, 80)!r}. "
                "Use a model that follows JSON schemas"
            )
        return answer, sent, received

    def _said(self, messages: list[dict[str, str]], ask: Ask) -> tuple[str, int, int]:
        estimate = sum(self._tokens(m["content"]) for m in messages)
        with self.ledger.call(estimate, self.received) as paid:
            response = self._tried(messages, ask, paid)
            usage = getattr(response, "usage", None)
            text = (response.choices[0].message.content or "") if response.choices else ""
            paid.sent = int(getattr(usage, "prompt_tokens", 0) or estimate)
            paid.received = int(getattr(usage, "completion_tokens", 0) or count_tokens(text))
            return text, paid.sent, paid.received

    def _tried(self, messages: list[dict[str, str]], ask: Ask, paid: Paid) -> Any:
        """The server's response after up to `TRIES` tries, waiting longer each time."""
        openai = need_openai()
        pause = FIRST_WAIT
        for attempt in range(1, TRIES + 1):
            self.pace.turn()
            plain = self._plain
            try:
                return self._opened(openai).chat.completions.create(
                    model=self.model, messages=_with(messages, in_words(ask.schema) if plain else ""), seed=ask.sample,
                    temperature=self.temperature, max_tokens=self.received, **({} if plain else _form(ask.schema)),
                )  # fmt: skip
            except openai.BadRequestError as error:
                if plain:
                    raise LLMError(f"{self.name}: refused the question ({_short(error)}); check the model") from error
                self._plain = True  # a server without schemas: state it in words from now on
            except (openai.AuthenticationError, openai.PermissionDeniedError) as error:
                raise LLMError(f"{self.name}: the key was refused ({_short(error)}); set {KEYS[0]}") from error
            except openai.NotFoundError as error:
                raise LLMError(f"{self.name}: no such model or path ({_short(error)}); check llm.model") from error
            except (openai.APIConnectionError, openai.RateLimitError, openai.InternalServerError) as error:
                if attempt == TRIES:
                    paid.sent = 0
                    raise LLMError(
                        f"{self.name}: no answer after {TRIES} tries ({_short(error)}); is the server running?"
                    ) from error
                self._sleep(min(LONGEST_WAIT, _asked_wait(error) or pause * (0.75 + random.random() / 2)))
                pause *= 2
            except openai.APIError as error:
                raise LLMError(f"{self.name}: {_short(error)}; see the server's log") from error
        raise LLMError(f"{self.name}: no answer after {TRIES} tries; is the server running?")

    def _opened(self, openai: Any) -> Any:
        with self._lock:
            if self._client is None:
                key = next((self._env[name] for name in KEYS if self._env.get(name)), "none")
                self._client = openai.OpenAI(api_key=key, base_url=self.url, timeout=self.timeout, max_retries=0)
            return self._client

    @staticmethod
    def _tokens(text: str) -> int:
        return int(count_tokens(text) * MARGIN) + 8


def open_llm(spec: str, store: Store | None = None, **settings: Any) -> ChatLLM:
    """The model that `MODEL@URL` names; further arguments are those of `ChatLLM`. Raises `ConfigError`."""
    model, at, url = spec.partition("@")
    if not model or not at or not url.startswith(("http://", "https://")):
        raise ConfigError(f"llm.model: {spec!r}; write MODEL@URL, such as qwen3:4b@http://localhost:11434/v1")
    return ChatLLM(model, url.rstrip("/"), store, **settings)


def need_openai() -> Any:
    """The openai module. Raises `MissingExtra`."""
    try:
        import jsonschema
        import openai
    except ImportError as error:
        raise MissingExtra("llm", "openai and jsonschema", "a language model") from error
    del jsonschema
    return openai


def _form(schema: Mapping[str, Any]) -> dict[str, Any]:
    named = {"name": "answer", "schema": dict(schema), "strict": True}
    return {"response_format": {"type": "json_schema", "json_schema": named}}


def _with(messages: Sequence[dict[str, str]], more: str) -> list[dict[str, str]]:
    """The messages, the first one followed by `more`."""
    return [{**messages[0], "content": messages[0]["content"] + more}, *messages[1:]]


def in_words(schema: Mapping[str, Any]) -> str:
    """The schema as a last line of the prompt, for servers that take none."""
    return (
        f"\n\nAnswer with one JSON object under this schema and nothing else:\n{json.dumps(schema, ensure_ascii=False)}"
    )


def _checked(text: str, schema: Mapping[str, Any]) -> tuple[Mapping[str, Any], str | None]:
    try:
        answer = parsed(text)
    except ValueError as error:
        return {}, f"no JSON object ({one_line(str(error), 80)})"
    return answer, valid(answer, schema)


def _asked_wait(error: Any) -> float | None:
    """Seconds that the server asked to wait, when it said so."""
    response = getattr(error, "response", None)
    stated = response.headers.get("retry-after") if response is not None else None
    try:
        return max(0.0, float(stated)) if stated else None
    except ValueError:
        return None


def _short(error: Exception) -> str:
    return one_line(str(error), 120)

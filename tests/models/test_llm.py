"""The chat client against a real server: what is valid, kept, retried, paced, paid for."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from metier.errors import BudgetSpent, ConfigError, LLMError
from metier.models.llm import Ask, ChatLLM, Pace, open_llm
from metier.models.spending import Budget
from metier.store import Store

from .chat_server import always, in_turn, serving

pytest.importorskip("openai", reason="the llm extra is not installed")

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"n": {"type": "integer"}},
    "required": ["n"],
    "additionalProperties": False,
}
GOOD = '{"n": 3}'


def opened(url: str, tmp_path: Path, **settings: Any) -> tuple[ChatLLM, list[float]]:
    waits: list[float] = []
    settings.setdefault("env", {})
    return open_llm(f"m@{url}", Store(tmp_path / "store.db"), sleep=waits.append, **settings), waits


def test_an_answer_is_an_object_valid_under_its_schema(tmp_path: Path) -> None:
    with serving(always(GOOD)) as (chat, url):
        llm, _ = opened(url, tmp_path)
        assert llm.complete("how many?", schema=SCHEMA) == {"n": 3}
        asked = chat.asked[0]
    assert asked["response_format"]["json_schema"]["schema"] == SCHEMA
    assert asked["temperature"] == 0.3
    assert asked["messages"] == [{"role": "user", "content": "how many?"}]


def test_the_same_question_is_asked_once_even_by_another_process(tmp_path: Path) -> None:
    with serving(always(GOOD)) as (chat, url):
        first, _ = opened(url, tmp_path)
        first.complete("q", schema=SCHEMA)
        second, _ = opened(url, tmp_path)
        assert second.complete("q", schema=SCHEMA) == {"n": 3}
        assert len(chat.asked) == 1
        assert second.ledger.hits == 1
        second.complete("q", schema=SCHEMA, sample=1)
        second.complete("other", schema=SCHEMA)
        assert len(chat.asked) == 3


def test_the_key_of_an_answer_tells_model_temperature_schema_prompt_and_sample_apart(tmp_path: Path) -> None:
    base = ChatLLM("m", "http://h/v1", None)
    keys = {
        base.key(Ask("p", SCHEMA)),
        base.key(Ask("p", SCHEMA, 1)),
        base.key(Ask("q", SCHEMA)),
        base.key(Ask("p", {"type": "object"})),
        ChatLLM("m2", "http://h/v1", None).key(Ask("p", SCHEMA)),
        ChatLLM("m", "http://h/v1", None, temperature=0.0).key(Ask("p", SCHEMA)),
    }
    assert len(keys) == 6


def test_an_invalid_answer_is_repaired_once_by_saying_what_is_wrong(tmp_path: Path) -> None:
    with serving(in_turn((200, {}, '{"n": "three"}'), (200, {}, GOOD))) as (chat, url):
        llm, _ = opened(url, tmp_path)
        assert llm.complete("q", schema=SCHEMA) == {"n": 3}
        repair = chat.asked[1]["messages"]
    assert repair[1] == {"role": "assistant", "content": '{"n": "three"}'}
    assert "'three' is not of type 'integer'" in repair[2]["content"]


def test_a_second_invalid_answer_is_an_error_and_is_not_kept(tmp_path: Path) -> None:
    with serving(always("I would rather talk about the weather.")) as (chat, url):
        llm, _ = opened(url, tmp_path)
        with pytest.raises(LLMError, match=r"not valid after one repair.*rather talk"):
            llm.complete("q", schema=SCHEMA)
        assert len(chat.asked) == 2
        assert llm.estimate([Ask("q", SCHEMA)]).calls == 1


def test_a_busy_server_is_asked_again_after_as_long_as_it_says(tmp_path: Path) -> None:
    with serving(in_turn((429, {"retry-after": "7"}, "slow down"), (503, {}, "busy"), (200, {}, GOOD))) as (_, url):
        llm, waits = opened(url, tmp_path)
        assert llm.complete("q", schema=SCHEMA) == {"n": 3}
    assert waits[0] == 7.0
    assert 0.5 <= waits[1] <= 1.5


def test_waits_grow_and_end_in_an_error_that_names_the_server(tmp_path: Path) -> None:
    with serving(always("")) as (_, url):
        pass  # closed again: nothing listens there now
    llm, waits = opened(url, tmp_path)
    with pytest.raises(LLMError, match=r"m@http://127.*no answer after 5 tries.*is the server running"):
        llm.complete("q", schema=SCHEMA)
    assert len(waits) == 4
    assert waits[3] > waits[0] * 3


def test_a_server_without_schemas_is_told_the_schema_in_words(tmp_path: Path) -> None:
    def script(number: int, body: dict[str, Any]) -> tuple[int, dict[str, str], str]:
        return (400, {}, "response_format unknown") if "response_format" in body else (200, {}, f"Sure: {GOOD}")

    with serving(script) as (chat, url):
        llm, _ = opened(url, tmp_path)
        assert llm.complete("q", schema=SCHEMA) == {"n": 3}
        assert '"integer"' in chat.asked[1]["messages"][0]["content"]
        llm.complete("q2", schema=SCHEMA)
        assert len(chat.asked) == 3  # not tried with a schema again


def test_the_key_comes_from_the_environment_and_goes_nowhere_else(tmp_path: Path) -> None:
    with serving(in_turn((200, {}, GOOD), (401, {}, "bad key"))) as (chat, url):
        llm, _ = opened(url, tmp_path, env={"METIER_LLM_KEY": "sesame-4711"})
        llm.complete("q", schema=SCHEMA)
        assert chat.keys == ["Bearer sesame-4711"]
        with pytest.raises(LLMError, match="set METIER_LLM_KEY") as refused:
            llm.complete("q2", schema=SCHEMA)
    assert "4711" not in f"{refused.value!r} {llm!r} {llm.name}"
    assert b"4711" not in b"".join(p.read_bytes() for p in tmp_path.iterdir())


def test_a_budget_of_calls_ends_the_work_and_a_larger_one_goes_on_from_there(tmp_path: Path) -> None:
    asks = [Ask(f"q{n}", SCHEMA) for n in range(6)]
    with serving(always(GOOD)) as (chat, url):
        llm, _ = opened(url, tmp_path, budget=Budget(calls=4), at_once=2)
        done: list[int] = []
        with pytest.raises(BudgetSpent, match="budget of 4 calls is used up"):
            done += [place for place, _ in llm.each(asks)]
        assert len(chat.asked) == 4
        more, _ = opened(url, tmp_path, budget=Budget(calls=2))
        assert more.estimate(asks).cached == 4
        assert sorted(place for place, _ in more.each(asks)) == [0, 1, 2, 3, 4, 5]
        assert len(chat.asked) == 6


def test_a_budget_of_tokens_or_money_refuses_a_call_before_it_is_sent(tmp_path: Path) -> None:
    with serving(always(GOOD)) as (chat, url):
        for budget in (Budget(tokens=50), Budget(money=0.0001, price_sent=1.0, price_received=10.0)):
            llm, _ = opened(url, tmp_path, budget=budget)
            with pytest.raises(BudgetSpent, match="does not fit"):
                llm.complete("q", schema=SCHEMA)
        assert chat.asked == []


def test_the_ledger_counts_what_the_server_says_it_used(tmp_path: Path) -> None:
    with serving(always(GOOD)) as (_, url):
        llm, _ = opened(url, tmp_path, budget=Budget(price_sent=2.0, price_received=4.0))
        llm.complete("q", schema=SCHEMA)
    assert (llm.ledger.calls, llm.ledger.sent, llm.ledger.received) == (1, 10, 5)
    assert llm.ledger.money == pytest.approx((10 * 2 + 5 * 4) / 1e6)


def test_several_calls_are_under_way_at_once_but_never_more_than_allowed(tmp_path: Path) -> None:
    with serving(always(GOOD)) as (chat, url):
        chat.gate = threading.Barrier(3)  # each call waits until three are there
        llm, _ = opened(url, tmp_path, at_once=3)
        seen: list[int] = []
        answers = dict(llm.each([Ask(f"q{n}", SCHEMA) for n in range(6)], progress=seen.append))
    assert answers == {n: {"n": 3} for n in range(6)}
    assert chat.most == 3
    assert seen == [1, 2, 3, 4, 5, 6]


def test_one_failed_question_does_not_stop_the_others(tmp_path: Path) -> None:
    def script(number: int, body: dict[str, Any]) -> tuple[int, dict[str, str], str]:
        return 200, {}, "no" if "q1" in body["messages"][0]["content"] else GOOD

    with serving(script) as (_, url):
        llm, _ = opened(url, tmp_path)
        answers = dict(llm.each([Ask(f"q{n}", SCHEMA) for n in range(3)]))
    assert isinstance(answers[1], LLMError)
    assert answers[0] == answers[2] == {"n": 3}


def test_a_dry_run_says_what_it_will_cost_and_sends_nothing(tmp_path: Path) -> None:
    with serving(always(GOOD)) as (chat, url):
        llm, _ = opened(url, tmp_path, budget=Budget(price_sent=1.0, price_received=2.0), received=100)
        llm.complete("known", schema=SCHEMA)
        estimate = llm.estimate([Ask("known", SCHEMA), Ask("word " * 400, SCHEMA)])
        assert (estimate.calls, estimate.cached, estimate.received) == (1, 1, 100)
        assert 400 <= estimate.sent <= 1200
        assert estimate.money == pytest.approx((estimate.sent + 200) / 1e6)
        assert "1 calls (1 more are answered already)" in str(estimate)
        assert len(chat.asked) == 1


def test_calls_begin_no_faster_than_the_stated_rate() -> None:
    now, slept = [0.0], []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    pace = Pace(2, clock=lambda: now[0], sleep=sleep)
    begun = []
    for _ in range(5):
        pace.turn()
        begun.append(now[0])
        now[0] += 1.0
    assert begun == [0.0, 1.0, 60.0, 61.0, 120.0]


@pytest.mark.parametrize("spec", ["qwen", "@http://h/v1", "m@ftp://h", ""])
def test_a_spec_without_model_and_url_is_refused_with_an_example(spec: str) -> None:
    with pytest.raises(ConfigError, match="write MODEL@URL"):
        open_llm(spec)

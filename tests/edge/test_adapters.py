"""The adapters with the real libraries and a scripted model: routed before the first model step, loaded on request."""

import importlib.util
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from edge.material import workshop
from metier.assemble.workshop import Workshop
from metier.router import Router

ADAPTERS = Path(__file__).parents[2] / "examples" / "adapters"
ASKED = "why is this query slow"


def adapter(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"adapter_{name}", ADAPTERS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    monkeypatch.setenv("HOME", str(tmp_path))
    return workshop(tmp_path, host="generic")


@pytest.fixture
def router(shop: Workshop) -> Router:
    return shop.router()


def outcomes(shop: Workshop) -> list[tuple[Any, ...]]:
    return [tuple(r) for r in shop.store.rows("SELECT skill, success, origin FROM outcomes")]


def test_each_adapter_is_short_and_uses_the_public_names_alone() -> None:
    for path in sorted(ADAPTERS.glob("*.py")):
        lines = path.read_text(encoding="utf-8").splitlines()
        assert len(lines) <= 150, path.name
        assert not [line for line in lines if "import" in line and "metier." in line], path.name


def test_langchain_agents_get_the_skills_before_the_first_model_call(router: Router, shop: Workshop) -> None:
    pytest.importorskip("langchain")
    from langchain.agents import create_agent
    from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel
    from langchain_core.messages import AIMessage, ToolMessage
    from langchain_core.tools import tool

    seen: list[list[Any]] = []

    class Scripted(FakeMessagesListChatModel):
        def bind_tools(self, tools: Any, **more: Any) -> Any:
            return self

        def _generate(self, messages: Any, *args: Any, **more: Any) -> Any:
            seen.append(list(messages))
            return super()._generate(messages, *args, **more)

    @tool
    def bash(command: str) -> str:
        """Runs a command."""
        return command

    call = {"name": "load_skill", "args": {"skill": "sql-tuning"}, "id": "1"}
    model = Scripted(responses=[AIMessage(content="", tool_calls=[call]), AIMessage(content="Done.")])
    middleware = adapter("langchain_middleware").MetierMiddleware(router, stack="scripted/1")
    agent = create_agent(model, tools=[bash], middleware=[middleware], system_prompt="Be brief.")
    state = agent.invoke({"messages": [("user", ASKED)]})
    assert state["messages"][-1].text == "Done."
    assert "[metier]" in seen[0][0].text and "sql-tuning" in seen[0][0].text and seen[0][0].text.startswith("Be brief.")
    assert seen[0][0].text == seen[1][0].text, "one route a turn, however many model calls"
    answered = [m for m in state["messages"] if isinstance(m, ToolMessage)]
    assert "EXPLAIN ANALYZE" in answered[0].text
    assert not [m for m in state["messages"] if "[metier]" in m.text], "the conversation keeps no copy"
    assert middleware.route.slate.task.tools == {"bash"} and middleware.route.slate.task.stack == "scripted/1"
    middleware.record(1.0, skill="sql-tuning")
    assert outcomes(shop) == [("project:sql-tuning", 1.0, "check")]
    assert "no skill" in middleware.load_skill("nothing-here")


def test_pydantic_ai_agents_get_them_as_instructions(router: Router, shop: Workshop) -> None:
    pytest.importorskip("pydantic_ai")
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel

    told: list[Any] = []

    def scripted(messages: Any, info: Any) -> ModelResponse:
        told.append((info.instructions, [t.name for t in info.function_tools], messages[-1]))
        if len(told) == 1:
            return ModelResponse([ToolCallPart("load_skill", {"skill": "sql-tuning"})])
        if len(told) == 2:
            return ModelResponse([ToolCallPart("find_skills", {"task": "get lost commits back"})])
        return ModelResponse([TextPart("Done.")])

    skills = adapter("pydantic_ai_toolset").MetierSkills(router, tools=["bash"])
    agent = Agent(FunctionModel(scripted), instructions=skills.instructions, toolsets=[skills.toolset])
    assert agent.run_sync(ASKED).output == "Done."
    assert "[metier]" in told[0][0] and "sql-tuning" in told[0][0] and told[0][1] == ["find_skills", "load_skill"]
    assert "EXPLAIN ANALYZE" in str(told[1][2]) and "git-recovery" in str(told[2][2])
    skills.record(0.0, skill="git-recovery", origin="person")
    assert outcomes(shop) == [("project:git-recovery", 0.0, "person")]


@contextmanager
def scripted_api(replies: list[dict[str, Any]]) -> Iterator[tuple[str, list[Any]]]:
    """A chat endpoint on this machine that says these things in turn; what it was sent is kept."""
    sent: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            sent.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            choice = {"index": 0, "message": {"role": "assistant", **replies[len(sent) - 1]}, "finish_reason": "stop"}
            body = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
            data = json.dumps(body).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1", sent
    finally:
        server.shutdown()
        server.server_close()


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {
        "content": None,
        "tool_calls": [{"id": "1", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}],
    }


def test_a_loop_over_the_openai_client_gets_context_tools_and_answers(router: Router, shop: Workshop) -> None:
    openai = pytest.importorskip("openai")
    module = adapter("openai_tools")
    script = [call("load_skill", skill="sql-tuning"), call("load_skill", wrong=1), {"content": "Done."}]
    skills = module.OpenAISkills(router, tools=["bash"])
    with scripted_api(script) as (url, sent):
        client = openai.OpenAI(base_url=url, api_key="none", max_retries=0)
        said = module.run(client, "m", [{"role": "system", "content": "S"}, {"role": "user", "content": ASKED}], skills)
    assert said == "Done."
    assert [m["role"] for m in sent[0]["messages"]] == ["system", "system", "user"]
    assert "[metier]" in sent[0]["messages"][1]["content"] and [t["function"]["name"] for t in sent[0]["tools"]] == [
        "find_skills", "load_skill",
    ]  # fmt: skip
    assert "EXPLAIN ANALYZE" in sent[1]["messages"][-1]["content"]
    assert "the arguments cannot be used" in sent[2]["messages"][-1]["content"]
    skills.record(1.0, skill="sql-tuning", tokens=700)
    assert outcomes(shop) == [("project:sql-tuning", 1.0, "check")]


def test_without_a_request_or_without_a_route_the_helper_says_so(router: Router) -> None:
    skills = adapter("openai_tools").OpenAISkills(router)
    assert skills.prepare([{"role": "system", "content": "x"}]) == [{"role": "system", "content": "x"}]
    with pytest.raises(ValueError, match="nothing was routed yet"):
        skills.record(1.0)
    assert "find_skills" in skills.call("find_skills", "{broken") and skills.answers(None) == []

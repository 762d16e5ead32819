"""The MCP tools through the SDK's own client: their surface, their errors, a library that changes."""

import json
from pathlib import Path
from typing import Any

import pytest

from edge.material import settled, workshop, write_skill
from golden import golden_json

anyio = pytest.importorskip("anyio")
mcp = pytest.importorskip("mcp")
import mcp_types as types  # noqa: E402
from mcp import Client  # noqa: E402

from edge.mcp_client import MODES, of_mcp, talk, text_of  # noqa: E402
from metier.assemble.workshop import Workshop  # noqa: E402
from metier.edge.mcp.server import make  # noqa: E402
from metier.edge.mcp.tools import INSTRUCTIONS, TOOLS, Tools  # noqa: E402


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    monkeypatch.setenv("HOME", str(tmp_path))
    return of_mcp(workshop(tmp_path, host="mcp"))


# ------------------------------------------------------------------------------------------------------ the surface


def test_names_schemas_and_descriptions_are_what_they_were_golden(shop: Workshop) -> None:
    async def act(client: Client) -> Any:
        tools = await client.list_tools()
        templates = await client.list_resource_templates()
        return {
            "instructions": client.instructions,
            "extensions": client.server_capabilities.extensions,
            "tools": [t.model_dump(by_alias=True, exclude_none=True) for t in tools.tools],
            "templates": [t.model_dump(by_alias=True, exclude_none=True) for t in templates.resource_templates],
        }

    golden_json("mcp-surface.json", talk(make(shop), act))


def test_descriptions_and_instructions_stay_under_2_kb_and_find_skills_is_always_loaded() -> None:
    assert len(INSTRUCTIONS.encode()) < 2048
    assert all(len(str(tool["description"]).encode()) < 2048 for tool in TOOLS)
    assert TOOLS[0]["name"] == "find_skills" and TOOLS[0]["_meta"] == {"anthropic/alwaysLoad": True}
    words = " ".join([INSTRUCTIONS, *(str(tool["description"]) for tool in TOOLS)])
    assert not any(order in words for order in ("MUST", "MANDATORY", "IMPORTANT", "ALWAYS"))


@pytest.mark.parametrize("mode", MODES)
def test_an_agent_finds_loads_and_records(shop: Workshop, mode: str, tmp_path: Path) -> None:
    async def act(client: Client) -> list[types.CallToolResult]:
        found = await client.call_tool("find_skills", {"task": "why is this query slow", "tools": ["bash"], "limit": 2})
        route = found.structured_content["route_id"]
        loaded = await client.call_tool("load_skill", {"skill": "sql-tuning", "route_id": route})
        kept = await client.call_tool(
            "record_outcome", {"route_id": route, "skill": "sql-tuning", "success": 1, "tokens": 900}
        )
        return [found, loaded, kept]

    found, loaded, kept = talk(make(shop), act, mode)
    assert not (found.is_error or loaded.is_error or kept.is_error)
    assert (
        found.structured_content["skills"][0]["name"] == "sql-tuning" and len(found.structured_content["skills"]) == 2
    )
    assert found.structured_content["skills"][0]["verdict"]["level"] == "offer"
    assert "EXPLAIN ANALYZE" in text_of(loaded) and "third-party text" in text_of(loaded)
    rows = shop.store.rows("SELECT origin, success, tokens FROM outcomes")
    assert [tuple(r) for r in rows] == [("agent", 1.0, 900)]
    if mode == "auto":
        golden_json(
            "mcp-answers.json", json.loads(settled(json.dumps([text_of(r) for r in (found, loaded, kept)]), tmp_path))
        )


def test_a_body_goes_out_by_load_skill_alone(shop: Workshop) -> None:
    found = Tools(shop).call("find_skills", {"task": "use the sql-tuning skill"})
    assert "EXPLAIN" not in found.text
    assert [r["what"] for r in shop.store.rows("SELECT DISTINCT what FROM events")] == ["offered"]


# ------------------------------------------------------------------------------------------------------ errors


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        ("find_skills", {}, "'task' is missing"),
        ("find_skills", {"task": "  "}, "a text that is not empty"),
        ("find_skills", {"task": ["x"]}, "a text that is not empty"),
        ("find_skills", {"task": "x", "limit": 0}, "a whole number from 1 to 50"),
        ("find_skills", {"task": "x", "limit": True}, "a whole number from 1 to 50"),
        ("find_skills", {"task": "x", "tools": "bash"}, "a list of texts"),
        ("find_skills", {"text": "x"}, "there is no argument 'text'; it takes task, tools, limit"),
        ("load_skill", {"skill": "sql-tunning"}, "did you mean"),
        ("load_skill", {"skill": "pdf-forms", "resource": "missing.md"}, "reference.md"),
        ("record_outcome", {"route_id": "r_none", "skill": "pdf-forms", "success": 1}, "is not in the log"),
        ("record_outcome", {"route_id": "r", "skill": "pdf-forms", "success": 2}, "a number from 0 to 1"),
        ("search", {"q": "x"}, "there is no tool 'search'; these are: find_skills, load_skill, record_outcome"),
    ],
)
def test_an_error_is_a_result_that_says_what_to_do(shop: Workshop, name: str, given: dict[str, Any], said: str) -> None:
    answer = Tools(shop).call(name, given)
    assert answer.error and said in answer.text and "\n\n" not in answer.text


def test_errors_reach_the_client_as_tool_results_and_the_session_goes_on(shop: Workshop) -> None:
    async def act(client: Client) -> list[bool]:
        said = [await client.call_tool(n, a) for n, a in (("nothing", {}), ("load_skill", {"skill": "?"}))]
        good = await client.call_tool("find_skills", {"task": "why is this query slow"})
        return [*(r.is_error for r in said), good.is_error]

    assert talk(make(shop), act) == [True, True, False]


def test_a_failure_nobody_thought_of_is_an_answer_and_no_crash(shop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Workshop, *args: Any, **more: Any) -> None:
        raise RuntimeError("disk on fire")

    monkeypatch.setattr(Workshop, "router", broken)
    answer = Tools(shop).call("find_skills", {"task": "x"})
    assert answer.error and "RuntimeError: disk on fire" in answer.text and "go on without a skill" in answer.text


@pytest.mark.parametrize("path", ["../sql-tuning/SKILL.md", "/etc/passwd", "..\\x", "a/../../x", "C:\\x", "\x00", "."])
def test_a_resource_outside_its_skill_is_refused(shop: Workshop, path: str) -> None:
    answer = Tools(shop).call("load_skill", {"skill": "pdf-forms", "resource": path})
    assert answer.error and "root:" not in answer.text


def test_a_skill_that_the_user_excluded_is_not_loaded(tmp_path: Path) -> None:
    shop = of_mcp(workshop(tmp_path, host="mcp", exclude=["sql-tuning"]))
    assert Tools(shop).call("load_skill", {"skill": "sql-tuning"}).error


# ---------------------------------------------------------------------------------------- a library that changes


def test_an_edited_skill_is_served_as_it_is_now_and_marked_as_changed(shop: Workshop) -> None:
    tools = Tools(shop)
    route = tools.call("find_skills", {"task": "why is this query slow"}).data
    assert route is not None
    given = {"skill": "sql-tuning", "route_id": route["route_id"]}
    assert "has changed" not in tools.call("load_skill", given).text
    write_skill(shop.cwd / ".claude" / "skills", "sql-tuning", "Find out why a PostgreSQL query is slow.", "Ask a DBA.")
    text = tools.call("load_skill", {"skill": "sql-tuning"}).text
    assert "Ask a DBA." in text and "has changed since it was last loaded here" in text


def test_a_skill_that_is_deleted_between_finding_and_loading_is_an_answer(shop: Workshop) -> None:
    tools = Tools(shop)
    route = tools.call("find_skills", {"task": "why is this query slow"}).data
    assert route is not None
    folder = shop.cwd / ".claude" / "skills" / "sql-tuning"
    (folder / "SKILL.md").unlink()
    folder.rmdir()
    answer = tools.call("load_skill", {"skill": "sql-tuning", "route_id": route["route_id"]})
    assert answer.error and "gone" in answer.text


def test_a_skill_added_while_the_server_runs_is_found_after_the_next_index(shop: Workshop) -> None:
    tools = Tools(shop)
    tools.call("find_skills", {"task": "bake sourdough bread"})
    write_skill(shop.cwd / ".claude" / "skills", "sourdough", "Bake sourdough bread.", "Feed the starter.")
    Workshop(shop.config, cwd=shop.cwd).refresh()
    data = tools.call("find_skills", {"task": "bake sourdough bread"}).data
    assert data is not None and data["skills"][0]["name"] == "sourdough"

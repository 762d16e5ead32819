"""A whole agent: any OpenAI-compatible model, and the skills of `metier mcp`. It finds, loads, answers, and reports.

    python examples/agent.py --url http://127.0.0.1:8080/v1 --model smollm2 "fill in this form"

A large model calls tools by itself (`adapters/openai_tools.py`); this loop also works with one of 135 million
parameters: the order of the steps is fixed, and the model fills in each step's own JSON schema. What is asked, which
skill is opened, the answer and the report are the model's. Whether it did well is not: `metier collect` asks a check.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

import anyio
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from openai import OpenAI

Messages = list[dict[str, str]]
SERVER = (sys.executable, "-m", "metier.edge.cli.main", "mcp")
BODY = 6_000
"""Characters of a skill that a small context holds beside everything else."""
STEP = 60
"""Tokens that the model writes in a step."""

FIND: Messages = [
    {"role": "system", "content": "Say in JSON what the user's message is about."},
    {"role": "user", "content": "Why are my photos sideways?"},
    {"role": "assistant", "content": '{"task": "photos that are sideways"}'},
    {"role": "user", "content": "Who wrote this song?"},
    {"role": "assistant", "content": '{"task": "author of this song"}'},
    {"role": "user", "content": "How long does the train take?"},
    {"role": "assistant", "content": '{"task": "time of the train"}'},
]
CHOOSE: Messages = [
    {"role": "system", "content": "Copy the line that fits the question."},
    {"role": "user", "content": "Make images smaller.\nTurn images.\nQuestion: My photos are sideways, turn them."},
    {"role": "assistant", "content": '{"line": "Turn images."}'},
    {"role": "user", "content": "Authors of songs.\nMake soup.\nQuestion: Who wrote this song?"},
    {"role": "assistant", "content": '{"line": "Authors of songs."}'},
]
"""Lines, not ids: a model of this size copies what resembles the question, and takes any id for as good as another."""
JUDGE: Messages = [
    {
        "role": "system",
        "content": "Say whether the answer answers the question: 1 if it does, 0 if not. Reply in JSON.",
    },
    {"role": "user", "content": "Question: What is two and two?\nAnswer: Four."},
    {"role": "assistant", "content": '{"success": 1}'},
    {"role": "user", "content": "Question: What is two and two?\nAnswer: I like fish."},
    {"role": "assistant", "content": '{"success": 0}'},
]


@dataclass(slots=True)
class Turn:
    """What happened on one task."""

    task: str
    asked: str = ""
    """What the model searched for."""
    found: Mapping[str, Any] = field(default_factory=dict)
    """find_skills' structured answer: route_id, skills with their verdicts."""
    skill: str = ""
    answer: str = ""
    success: float = 0.0
    """The model's own word on it."""


@dataclass(frozen=True, slots=True)
class Agent:
    """One model, and a client of metier's MCP server."""

    model: str
    llm: OpenAI
    skills: Client

    def fill(self, messages: Messages, properties: Mapping[str, Any]) -> dict[str, Any]:
        """The model's JSON, held to these properties while it writes."""
        schema = {"type": "object", "properties": dict(properties), "required": list(properties)}
        form = {"type": "json_schema", "json_schema": {"name": "step", "schema": schema, "strict": True}}
        said = self.llm.chat.completions.create(  # type: ignore[call-overload]
            model=self.model, messages=messages, response_format=form, temperature=0, max_tokens=STEP
        )
        text = said.choices[0].message.content or ""
        try:
            filled: dict[str, Any] = json.loads(text)
        except ValueError:  # it ran on until the limit, inside the last string
            filled = json.loads(text.rstrip("\\") + '"}')
        return filled

    async def tool(self, name: str, **arguments: Any) -> tuple[str, Mapping[str, Any]]:
        """The tool's text and data. Raises `RuntimeError` with what it said where it refuses."""
        result = await self.skills.call_tool(name, arguments)
        text = "\n".join(getattr(block, "text", "") for block in result.content)
        if result.is_error:
            raise RuntimeError(text)
        return text, result.structured_content or {}

    async def act(self, task: str) -> Turn:
        """One task: find, load, answer, record."""
        turn = Turn(task)
        turn.asked = self.fill([*FIND, {"role": "user", "content": task}], {"task": {"type": "string"}})["task"]
        _, turn.found = await self.tool("find_skills", task=turn.asked or task, limit=3)
        told: Messages = []
        if turn.found["skills"]:
            lines = {s["description"]: s["id"] for s in turn.found["skills"]}
            wish = [*CHOOSE, {"role": "user", "content": "\n".join([*lines, f"Question: {task}"])}]
            turn.skill = lines[self.fill(wish, {"line": {"type": "string", "enum": list(lines)}})["line"]]
            body, _ = await self.tool("load_skill", skill=turn.skill, route_id=turn.found["route_id"])
            told = [{"role": "system", "content": body[:BODY]}]
        turn.answer = self.fill([*told, {"role": "user", "content": task}], {"answer": {"type": "string"}})["answer"]
        if turn.skill:
            asked = [*JUDGE, {"role": "user", "content": f"Question: {task}\nAnswer: {turn.answer}"}]
            turn.success = self.fill(asked, {"success": {"type": "integer", "enum": [0, 1]}})["success"]
            done = {"route_id": turn.found["route_id"], "skill": turn.skill, "success": turn.success}
            await self.tool("record_outcome", **done)
        return turn


async def session(
    tasks: Sequence[str], *, model: str, url: str, server: Sequence[str] = SERVER, env: Mapping[str, str] | None = None
) -> list[Turn]:
    """Every task in one session with one server, which ends with it."""
    started = StdioServerParameters(
        command=server[0], args=list(server[1:]), env=dict(os.environ if env is None else env)
    )
    llm = OpenAI(base_url=url, api_key=os.environ.get("OPENAI_API_KEY", "none"))
    async with AsyncExitStack() as open_ones:
        client = await open_ones.enter_async_context(Client(stdio_client(started)))
        agent = Agent(model, llm, client)
        return [await agent.act(task) for task in tasks]


def main() -> None:
    """From the command line."""
    parser = argparse.ArgumentParser(description="An agent with the skills of `metier mcp`.")
    parser.add_argument("task")
    parser.add_argument("--url", required=True, help="an OpenAI-compatible server, such as http://127.0.0.1:8080/v1")
    parser.add_argument("--model", required=True)
    args = parser.parse_args()

    async def run() -> list[Turn]:
        return await session([args.task], model=args.model, url=args.url)

    turn = anyio.run(run)[0]
    verdicts = [f"{s['name']} [{s['verdict']['level']}: {s['verdict']['reason']}]" for s in turn.found["skills"]]
    print(f"searched for: {turn.asked}\nfound: {', '.join(verdicts) or turn.found['note']}")
    print(f"loaded: {turn.skill or 'nothing'}\nanswer: {turn.answer}\nits own report: {turn.success:g}")


if __name__ == "__main__":
    main()

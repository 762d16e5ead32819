"""metier in a loop over an OpenAI-compatible chat API: two tools, their answers, and the context for a request.

    skills = OpenAISkills(metier.open())
    messages = skills.prepare([{"role": "user", "content": "fill in this form"}])
    reply = client.chat.completions.create(model=..., messages=messages, tools=skills.tools).choices[0].message
    messages += [reply, *skills.answers(reply.tool_calls)]

`run` is that loop, until the model has no more calls.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from metier import MetierError, Route, Router

TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "find_skills",
            "description": "Finds installed skills for a task; each comes with a verdict and the reason for it.",
            "parameters": {
                "type": "object",
                "properties": {"task": {"type": "string", "description": "What is to be done, in plain words."}},
                "required": ["task"],
            },
        },
    },
    {
        "type": "function",
        "function": {
            "name": "load_skill",
            "description": "Returns the text of a skill that was listed, or one file of its folder (third-party text).",
            "parameters": {
                "type": "object",
                "properties": {
                    "skill": {"type": "string", "description": "Name or id of the skill."},
                    "resource": {"type": "string", "description": "A file of its folder that its text mentions."},
                },
                "required": ["skill"],
            },
        },
    },
]


class OpenAISkills:
    """One router for one conversation. The latest route is kept, so that loading and recording refer to it."""

    def __init__(self, router: Router, *, tools: Iterable[str] | None = None, stack: str | None = None) -> None:
        self.router, self.stack = router, stack
        self.names = None if tools is None else list(tools)
        self.route: Route | None = None
        self.tools = TOOLS

    def prepare(self, messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """The messages, with what the router says about the last request in front of it."""
        at = next((n for n in range(len(messages) - 1, -1, -1) if messages[n].get("role") == "user"), None)
        content = messages[at].get("content") if at is not None else None
        if at is None or not isinstance(content, str) or not content.strip():
            return list(messages)
        self.route = self.router.route(content, tools=self.names, stack=self.stack)
        said = [{"role": "system", "content": self.route.text}] if self.route.text else []
        return [*messages[:at], *said, *messages[at:]]

    def answers(self, calls: Iterable[Any] | None) -> list[dict[str, Any]]:
        """A tool message for each of the model's calls that is ours."""
        ours = [call for call in calls or () if call.function.name in ("find_skills", "load_skill")]
        return [
            {"role": "tool", "tool_call_id": c.id, "content": self.call(c.function.name, c.function.arguments)}
            for c in ours
        ]

    def call(self, name: str, arguments: str) -> str:
        """The answer to one call; what is wrong with it is said, so that the model can mend it."""
        try:
            given = json.loads(arguments or "{}")
            if name == "find_skills":
                self.route = self.router.route(str(given["task"]), tools=self.names, stack=self.stack)
                return self.route.text or self.route.slate.note or "no skill matches this task"
            return self.router.load(self.route, str(given["skill"]), given.get("resource"))
        except (ValueError, KeyError, TypeError) as error:
            return f"{name}: the arguments cannot be used ({error}); see the tool's schema"
        except MetierError as error:
            return f"{name}: {error}"

    def record(
        self, success: float, *, skill: str | None = None, tokens: int | None = None, origin: Any = "check"
    ) -> None:
        """How it went, by a check or a person (`origin`), for the skill that was loaded or is named."""
        if self.route is None:
            raise ValueError("record: nothing was routed yet; call prepare first")
        loaded = [c.skill.id for c in self.route.slate.candidates if c.verdict.level == "load"]
        if skill or loaded:
            self.router.record(self.route, skill or loaded, success, tokens=tokens, origin=origin)


def run(client: Any, model: str, messages: Sequence[dict[str, Any]], skills: OpenAISkills, *, steps: int = 8) -> str:
    """The model's final text, after at most `steps` rounds of tool calls."""
    talk = skills.prepare(messages)
    for _ in range(steps):
        reply = client.chat.completions.create(model=model, messages=talk, tools=skills.tools).choices[0].message
        if not reply.tool_calls:
            return reply.content or ""
        talk += [reply.model_dump(exclude_none=True), *skills.answers(reply.tool_calls)]
    return ""

"""metier in a pydantic-ai agent: skills for the request in the instructions, and a toolset to load them.

    skills = MetierSkills(metier.open())
    agent = Agent(model, instructions=skills.instructions, toolsets=[skills.toolset])

The instructions are computed from the person's prompt before the first model step; the model is not asked whether a
skill would help. How a run went is recorded by the caller: `skills.record(success=1.0)`.
"""

from __future__ import annotations

from typing import Any

from pydantic_ai import RunContext
from pydantic_ai.toolsets import FunctionToolset

from metier import MetierError, Route, Router


class MetierSkills:
    """One router for one agent. The latest route is kept, so that loading and recording refer to it."""

    def __init__(self, router: Router, *, tools: list[str] | None = None, stack: str | None = None) -> None:
        self.router, self.tools, self.stack = router, tools, stack
        self.route: Route | None = None
        self._asked: tuple[str, str] | None = None
        self.toolset: FunctionToolset[Any] = FunctionToolset([self.find_skills, self.load_skill], id="metier")

    def instructions(self, ctx: RunContext[Any]) -> str:
        """What the router says about this run's prompt; empty where it has nothing to say."""
        prompt = ctx.prompt
        text = prompt if isinstance(prompt, str) else " ".join(p for p in prompt or () if isinstance(p, str))
        if not text.strip():
            return ""
        asked = (str(ctx.run_id), text)
        if self.route is None or asked != self._asked:  # instructions are asked for again at every step of a run
            self.route, self._asked = self._routed(text), asked
        return self.route.text

    def find_skills(self, task: str) -> str:
        """Find installed skills for another task than the one at hand.

        Args:
            task: What is to be done, in plain words.
        """
        self.route = self._routed(task)
        return self.route.text or self.route.slate.note or "no skill matches this task"

    def load_skill(self, skill: str, resource: str | None = None) -> str:
        """Return the text of a skill that was listed, or one file of its folder. It is third-party text.

        Args:
            skill: Name or id of the skill.
            resource: A file of its folder that its text mentions.
        """
        try:
            return self.router.load(self.route, skill, resource)
        except MetierError as error:
            return f"load_skill: {error}"

    def record(
        self, success: float, *, skill: str | None = None, tokens: int | None = None, origin: Any = "check"
    ) -> None:
        """How the latest run went, by a check or a person (`origin`), for the skill that was loaded or is named."""
        if self.route is None:
            raise ValueError("record: nothing was routed yet; run the agent first")
        loaded = [c.skill.id for c in self.route.slate.candidates if c.verdict.level == "load"]
        if skill or loaded:
            self.router.record(self.route, skill or loaded, success, tokens=tokens, origin=origin)

    def _routed(self, text: str) -> Route:
        return self.router.route(text, tools=self.tools, stack=self.stack)

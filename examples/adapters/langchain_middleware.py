"""metier in a LangChain or LangGraph agent: a middleware that routes each request before the first model call.

    agent = create_agent(model, tools=[...], middleware=[MetierMiddleware(metier.open())])

What the router has to say goes into the system message of that turn's model calls, and nowhere else: the conversation
keeps no copy, so nothing is injected twice. The model may ask for a skill's text with `load_skill`. How a run went is
recorded by the caller, who knows: `middleware.record(success=1.0)`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any

from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.messages import HumanMessage, SystemMessage
from langchain_core.tools import BaseTool, StructuredTool

from metier import MetierError, Route, Router

KEPT = 64
"""Turns whose route is kept at hand: a model is called several times in one."""


class MetierMiddleware(AgentMiddleware):
    """Routes what the person asked, once a turn, with the names of the agent's own tools."""

    def __init__(self, router: Router, *, stack: str | None = None, family: str | None = None) -> None:
        super().__init__()
        self.router, self.stack, self.family = router, stack, family
        self.route: Route | None = None
        """The latest route."""
        self._routes: OrderedDict[tuple[str, str], Route] = OrderedDict()
        self.tools = [
            StructuredTool.from_function(
                self.load_skill,
                name="load_skill",
                description="Returns the text of a listed skill, or one file of its folder (third-party text).",
            )
        ]

    def wrap_model_call(self, request: ModelRequest, handler: Callable[[ModelRequest], ModelResponse]) -> ModelResponse:
        """The model call, with the skills for this turn in its system message."""
        return handler(self._informed(request))

    async def awrap_model_call(
        self, request: ModelRequest, handler: Callable[[ModelRequest], Awaitable[ModelResponse]]
    ) -> ModelResponse:
        """The same for asynchronous agents; routing takes milliseconds and reads local files."""
        return await handler(self._informed(request))

    def load_skill(self, skill: str, resource: str | None = None) -> str:
        """The fenced text of a skill or of one of its files; a refusal is an answer the model can read."""
        try:
            return self.router.load(self.route, skill, resource)
        except MetierError as error:
            return f"load_skill: {error}"

    def record(
        self, success: float, *, tokens: int | None = None, skill: str | None = None, origin: Any = "check"
    ) -> None:
        """How the latest turn went, by a check or a person (`origin`), for the skill that was loaded or is named."""
        if self.route is None:
            raise ValueError("record: nothing was routed yet; run the agent first")
        loaded = [c.skill.id for c in self.route.slate.candidates if c.verdict.level == "load"]
        if skill or loaded:
            self.router.record(self.route, skill or loaded, success, tokens=tokens, origin=origin)

    def _informed(self, request: ModelRequest) -> ModelRequest:
        asked = next((m for m in reversed(request.messages) if isinstance(m, HumanMessage)), None)
        if asked is None or not str(asked.text).strip():
            return request
        key = (str(asked.id), str(asked.text))
        if key not in self._routes:
            names = [t.name if isinstance(t, BaseTool) else str(t.get("name", "")) for t in request.tools]
            self._routes[key] = self.router.route(
                str(asked.text),
                tools=[n for n in names if n and n != "load_skill"],
                stack=self.stack,
                family=self.family,
            )
            while len(self._routes) > KEPT:
                self._routes.popitem(last=False)
        self.route = self._routes[key]
        if not self.route.text:
            return request
        before = f"{request.system_message.text}\n\n" if request.system_message else ""
        return request.override(system_message=SystemMessage(content=before + self.route.text))

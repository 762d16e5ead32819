"""The dashboard's pages: each takes the desk and a visit and returns HTML; nothing here knows about sockets."""

from __future__ import annotations

from metier.edge.web.pages import evidence, library, operations, routes, trying
from metier.edge.web.pages.render import Reading, Visit, refused, static

__all__ = ["READING", "WRITING", "Reading", "Visit", "refused", "static"]

READING: dict[str, Reading] = {
    "/": trying.show,
    "/library": library.skills,
    "/library/skill": library.one,
    "/library/problems": library.problems,
    "/library/look-alikes": library.look_alikes,
    "/library/copies": library.copies,
    "/library/budget": library.budget,
    "/evidence": evidence.show,
    "/routes": routes.log_page,
    "/routes/{id}": routes.one,
    "/operations": operations.show,
}
WRITING: dict[str, Reading] = {
    "/try": trying.send,
    "/routes/{id}/outcome": routes.record,
}

"""The front door of retrieval: build an index, load it, route with it.

built = build(skills, body, encoder, into=folder, vectors=cache)
stage = Retrieve(load(folder, profile=encoder.profile), skills, encoder)
slate = stage(Slate(id, Task("fill in this PDF form")))
"""

from __future__ import annotations

from metier.retrieve.build import Built, build
from metier.retrieve.clusters import families, look_alikes
from metier.retrieve.generation import verify
from metier.retrieve.opened import Index, load
from metier.retrieve.stage import Retrieve

__all__ = ["Built", "Index", "Retrieve", "build", "families", "load", "look_alikes", "verify"]

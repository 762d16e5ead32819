"""Everything opened once and lazily: the store, the encoder, the library, the index, the router.

A `Workshop` belongs to one process. It knows the roots, keeps their view fresh, and puts a `Router` together from what
is there: no vectors yet → words alone; no writable home → a temporary one; no bank → no stage that needs it.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from metier.assemble.indexing import Built, Opened, Progress, Source, build_generation, no_progress, open_generation
from metier.assemble.registered import registered
from metier.assemble.settings import FILE, placed
from metier.assemble.stages import STAGES, make_router, make_stage
from metier.assemble.views import View, spare, usable, writable
from metier.assemble.writing import Written, model, written
from metier.errors import IndexProblem, InputError, MetierError, NotFound, StoreError
from metier.router import Router
from metier.store import Store, forget
from metier.text import one_line
from metier.types import Config, Encoder, Library, Outcome, Skill, Stage

if TYPE_CHECKING:
    from metier.gate.bank import Bank
    from metier.gate.runnable import Runnable
    from metier.library.walk import Root
    from metier.models.llm import ChatLLM
    from metier.rerank.keep import Graphs

INLINE_SECONDS = 0.05
"""A library that was scanned this fast is looked at again before a route; a larger one behind it."""


class Workshop:
    """Store, encoder, library, index and router of one configuration. `paths` or `library` replace the known roots.

    `evaluating` keeps exact duplicates apart, as benchmarks count them. `encoder` is one that another workshop of this
    process has open already: one model in memory, one memo.
    """

    def __init__(
        self,
        config: Config,
        *,
        paths: Sequence[Path] | None = None,
        library: Library | None = None,
        cwd: Path | None = None,
        evaluating: bool = False,
        encoder: Encoder | None = None,
    ) -> None:
        self.config = config
        self.home = Path(config.home)
        self.cwd = cwd or Path.cwd()
        self.warnings: list[str] = []
        self._paths = paths
        self._given = library
        self._evaluating = evaluating
        self._shared = encoder
        self._opened: Opened | None = None
        self._registered: list[str] | None = None
        self._routers: dict[tuple[str, tuple[str, ...]], Router] = {}
        self._guard = threading.RLock()

    # ------------------------------------------------------------------------------------------- what it stands on

    @cached_property
    def store(self) -> Store:
        """The database of this home."""
        return Store(self.home / "store.db")

    @cached_property
    def encoder(self) -> Encoder:
        """The configured encoder behind the shared memo. Raises `EncoderError`."""
        if self._shared is not None:
            return self._shared
        from metier.models.encoder import memo, open_encoder

        return memo(open_encoder(self.config.encoder))

    @cached_property
    def llm(self) -> ChatLLM | None:
        """The configured language model, or None. Nothing is sent before it is asked."""
        return model(self.config, self.store, self.warnings)

    @cached_property
    def bank(self) -> Bank:
        """The outcomes of past tasks."""
        from metier.gate.bank import Bank

        return Bank(self.store)

    @cached_property
    def runnable(self) -> Runnable:
        """What this machine and host can run."""
        from metier.gate.runnable import Runnable

        return Runnable(host=self.config.host)

    @cached_property
    def graphs(self) -> Graphs:
        """Capability graphs by digest: the configured model's where it made one, else by rules."""
        from metier.rerank.keep import Graphs

        if self.llm is None:
            return Graphs(self.body, self.store)
        from metier.rerank.llm_extract import name_of

        return Graphs(self.body, self.store, preferred=name_of(self.llm))

    def append(self, outcome: Outcome) -> None:
        """The outcome is a row of the bank, on disk. Raises `BankError`."""
        self.bank.append([outcome])

    @cached_property
    def roots(self) -> list[Root]:
        """Where skills are looked for: the paths given, else the configured, registered and default places."""
        from metier.library.walk import Root

        if self._given is not None:
            return [Root(Path(r), "given") for r in self._given.roots]
        if self._paths is not None:
            return [Root(placed(p), "given") for p in self._paths]
        from metier.library.places import places

        listed = [(path, f"leave it out of 'skills' in {FILE}") for path in self.config.skills]
        self._registered = self.registered()
        listed += [(path, f"run: metier index --forget {path}") for path in self._registered]
        named = []
        for path, way_out in listed:
            place = placed(path)
            if usable(place):
                named.append(Root(place, "given"))
            else:  # one folder that was moved must not hide all the others
                self.warnings.append(f"{place}: no folder of skills and no JSONL library; put it back, or {way_out}")
        return named + places(self.cwd, os.environ)

    @cached_property
    def view(self) -> View:
        """The folder of these roots' index; in a temporary home where the real one cannot be written."""
        there = [r for r in self.roots if r.scope == "given" or r.path.is_dir()]  # elsewhere the same skills, one view
        keys = [f"{r.scope}:{r.plugin or ''}:{r.path}" for r in there]
        keys += ["library"] if self._given is not None else []
        keys += ["evaluating"] if self._evaluating else []
        view = View.of(self.home, keys, self.config.encoder)
        if view.current() is None and not writable(self.home):
            self.warnings.append(
                f"{self.home} cannot be written: nothing is kept; make it writable, or set METIER_HOME elsewhere"
            )
            view = View.of(spare(), keys, self.config.encoder)
        return view

    def registered(self) -> list[str]:
        """Paths that `metier index PATH` registered."""
        try:
            return registered(self.store)
        except StoreError as error:
            self.warnings.append(str(error))
            return []

    # ------------------------------------------------------------------------------------------------- the library

    @property
    def library(self) -> Library:
        """The skills of the current generation."""
        return self.opened().library

    def body(self, skill: Skill) -> str:
        """The body as it is on disk now."""
        from metier.library.read import body

        return body(skill, spool=self.view.spool)

    def fresh(self, skill: Skill) -> Skill | None:
        """The skill as it is on disk now; None when it is gone (field report 18)."""
        from metier.library.read import fresh

        return fresh(skill, spool=self.view.spool)

    def text(self, skill: Skill, resource: str | None = None, nonce: str = "") -> str:
        """The fenced text of a body or a resource."""
        from metier.disclose import fenced
        from metier.library.read import resource as read_resource

        if resource is None:
            return fenced(skill, self.body(skill), nonce=nonce)
        data = read_resource(skill, resource)
        try:
            return fenced(skill, data.decode("utf-8"), nonce=nonce, what=resource)
        except UnicodeDecodeError as error:
            raise InputError(
                f"{skill.name}/{resource}: not text ({len(data)} bytes); read it from {skill.addresses[0]}"
            ) from error

    def skill(self, name: str) -> Skill:
        """The skill of that id or name: the one resolver. Raises `NotFound` with what there is to choose from."""
        skills = self.library.skills
        rows = _matching(skills, name) or _as_shown(skills, name)
        if len(rows) == 1:
            found = skills[rows[0]]
            now = self.fresh(found)
            if now is None:
                raise NotFound(f"{found.name}: was at {found.addresses[0]} and is gone; run: metier index")
            return now
        if rows:
            raise NotFound(f"{len(rows)} skills are called '{name}'; give one of these ids:", _ids(skills, rows))
        raise NotFound(*_nearest(skills, name))

    # --------------------------------------------------------------------------------------------------- the index

    def opened(self) -> Opened:
        """The current generation, or, where there is none, one of words alone, made at once."""
        with self._guard:
            current = self.view.current()
            if self._opened is not None and current in (None, self._opened.folder):
                return self._opened
            while current is not None:
                try:
                    return self.reopen(current)
                except IndexProblem as error:
                    failed, current = current, self.view.current()
                    if current == failed:  # else indexers were quick: it was replaced, and removed, while being opened
                        self.warnings.append(f"the index is built anew: {error}")
                        break
            try:
                build_generation(self._source(), None, full=True)
            except MetierError as error:  # a full disk: what has room elsewhere is answered from there
                self.warnings.append(f"nothing is kept: {error}")
                self.view = View(spare() / "views" / self.view.folder.name)
                build_generation(self._source(), None, full=True)
            made = self.view.current()
            if made is None:
                raise IndexProblem(f"{self.view.folder}: the index could not be written; see the warnings above")
            self._opened = open_generation(made)
            return self._opened

    def reopen(self, generation: Path) -> Opened:
        """That generation is the open one. Raises `IndexProblem` when it is damaged; nothing is built."""
        if self._opened is None or self._opened.folder != generation:
            self._opened = open_generation(generation)
        return self._opened

    def _source(self, made: Written | None = None) -> Source:
        rule: Literal["agentskills", "claude-code"] = (
            "claude-code" if self.config.host == "claude-code" else "agentskills"
        )
        return Source(
            self.view, self.roots, self._given, rule, self.body, self.home / "vectors",
            collapse=not self._evaluating, written=made or Written(),
        )  # fmt: skip

    def refresh(self, *, full: bool = False, progress: Progress = no_progress, patient: bool = True) -> Built:
        """The roots are scanned and what is new or changed is indexed; the better generation is current.

        Impatient callers return at once where another process is at it; patient ones wait for their turn.
        """
        with self.view.lock(wait=600.0 if patient else 0.0) as mine:
            if not mine:
                raise IndexProblem(f"{self.view.folder}: another metier is indexing these skills; try again later")
            try:
                made = None if self._evaluating else written(self.llm, self.store, self.encoder, self.body)
                built = build_generation(self._source(made), self.encoder, full=full, progress=progress)
            except MetierError as error:
                self.view.note(at=time.time(), failed=str(error))
                raise
            self._shelve(progress)
        self._tidy_log()
        return built

    def _shelve(self, progress: Progress) -> None:
        """What the reranker reads of the skills is ready before a request asks for it; the index itself is in place."""
        try:
            if self.config.rerank and not self._evaluating:
                self.graphs.shelve(self.opened().library.skills, progress)
        except MetierError as error:  # a full disk: requests extract what they need, as they would without
            self.warnings.append(f"the skills' graphs are not kept: {error}")

    def _tidy_log(self) -> None:
        """What is older than `log.days` leaves the route log (interfaces.md, Privacy)."""
        try:
            forget(self.store, before=time.time() - 86400.0 * self.config.log_days)
        except StoreError as error:
            self.warnings.append(f"the route log could not be tidied: {error}")

    def complete(self) -> bool:
        """Whether the current generation has vectors."""
        return bool(self.view.facts().get("complete"))

    def wants_refresh(self) -> bool:
        """Whether the index lacks vectors, or was last compared with the folders `config.rescan` seconds ago."""
        facts = self.view.facts()
        lacking = not facts.get("complete") and not facts.get("failed")  # what failed is tried again, but not each time
        return lacking or time.time() - float(facts.get("at", 0.0)) > self.config.rescan

    def refresh_behind(self) -> None:
        """One detached process brings the index up to date; this one does not wait for it."""
        self.view.note(at=time.time())
        import subprocess

        subprocess.Popen(
            self.indexer(), cwd=self.cwd, start_new_session=True, close_fds=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def indexer(self) -> list[str]:
        """The command that indexes this very view, whatever flags this process was given."""
        config, paths = self.config, [] if self._paths is None else [f"--ad-hoc={p.absolute()}" for p in self._paths]
        command = [sys.executable, "-m", "metier.edge.cli.main", "index", "--background", "--quiet", *paths]
        command += [f"--home={self.home}", f"--set=encoder={config.encoder}", f"--set=host={config.host}"]
        command += [f"--set=llm.model={config.llm}"] if config.llm else []
        return command + ([f"--set=skills={os.pathsep.join(config.skills)}"] if config.skills else [])

    # -------------------------------------------------------------------------------------------------- the router

    def router(
        self, only: Sequence[str] | None = None, *, source: str = "api", progress: Progress = no_progress
    ) -> Router:
        """Stages, disclosure and log, for the newest generation; the same object while nothing changed."""
        wanted = tuple(STAGES if only is None else only)
        unknown = [s for s in wanted if s not in STAGES]
        if unknown:
            raise InputError(f"--only: there is no stage '{unknown[0]}'; choose from {', '.join(STAGES)}")
        if "retrieve" not in wanted:
            raise InputError("--only: 'retrieve' is what finds the candidates; it cannot be left out")
        with self._guard:
            self._look_again(progress)
            opened = self.opened()
            key = (str(opened.folder), (source, *wanted))
            if key not in self._routers:
                self._routers = {k: v for k, v in self._routers.items() if k[0] == str(opened.folder)}
                self._routers[key] = make_router(self, opened, wanted, source)
            return self._routers[key]

    def stage(self, name: str) -> Stage:
        """One stage over the newest generation, as a router would run it. Raises `InputError` for an unknown one."""
        opened = self.opened()
        made = make_stage(name, self, opened, self.encoder if opened.index.vectors is not None else None)
        if made is None:
            raise InputError(f"the stage '{name}' is off in this configuration; see: metier config")
        return made

    def _look_again(self, progress: Progress) -> None:
        """A small library is compared with its folders now, so that an added skill is found at once."""
        if self._registered is not None and self._registered != self.registered():  # by another process meanwhile
            for held in ("roots", "view"):
                self.__dict__.pop(held, None)
            self._opened = None
        facts = self.view.facts()
        due = time.time() - float(facts.get("at", 0.0)) > self.config.rescan
        if (
            facts.get("failed")
            and (told := f"the last attempt to index failed: {facts['failed']}") not in self.warnings
        ):
            self.warnings.append(told)
        if self._given is None and facts.get("complete") and due and float(facts.get("seconds", 1.0)) < INLINE_SECONDS:
            try:
                self.refresh(progress=progress, patient=False)
            except MetierError as error:
                self.warnings.append(f"added skills are not seen yet: {error}")


def _matching(skills: Sequence[Skill], name: str) -> list[int]:
    """Rows whose id is `name`, else those that are called so. An id's last folder is nearly always its skill's name."""
    from metier.library.catalogue import lookup

    folder = name.rsplit("#", 1)[-1].rsplit("/", 1)[-1].rsplit(":", 1)[-1]
    by_id = [n for n in lookup(skills, folder) if skills[n].id == name]
    if by_id or not (":" in name or "/" in name):
        return by_id or lookup(skills, name)
    return [n for n, s in enumerate(skills) if s.id == name] or lookup(skills, name)


def _as_shown(skills: Sequence[Skill], name: str) -> list[int]:
    """Rows whose name is printed so: one that holds escapes cannot be typed as it is."""
    return [n for n, s in enumerate(skills) if one_line(s.name) == name]


def _ids(skills: Sequence[Skill], rows: Sequence[int]) -> tuple[str, ...]:
    return tuple(f"{skills[n].id}   ({skills[n].addresses[0]})" for n in rows)


def _nearest(skills: Sequence[Skill], name: str) -> tuple[str, tuple[str, ...]]:
    import difflib

    names: Mapping[str, str] = {s.name: s.id for s in skills}
    close = difflib.get_close_matches(name, list(names), n=5, cutoff=0.5)
    close = list(dict.fromkeys([*close, *sorted(n for n in names if name and name.lower() in n.lower())]))[:5]
    hint = "; did you mean one of these?" if close else "; `metier doctor` lists what was found and where"
    return f"there is no skill '{one_line(name, 80)}' among {len(skills)}{hint}", tuple(names[c] for c in close)

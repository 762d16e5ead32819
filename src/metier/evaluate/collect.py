"""Paired runs of a real agent, with and without a skill, judged by a command (SkillDelta, rule 3.7).

Both arms of a task run in an order drawn by sha256(seed:id:repeat), each in a fresh folder; neither the agent nor the
check is told the arm. What is finished is a row of the bank, fsynced under the run's own key, so a killed collection
goes on where it was, without a lost or doubled row. Every start is on record before it happens: caps hold across
restarts. A failed transport is tried again and never counts as a failure of the agent.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from pathlib import Path

from metier.errors import BankError, InputError
from metier.evaluate.adapters import BETWEEN, TRANSPORT_SIGNS, Adapter, Said, said
from metier.evaluate.ledger import Ledger, Limits, Spent
from metier.evaluate.process import Children, Ran, redacted
from metier.evaluate.tasks import Job, Material
from metier.gate.bank import Bank
from metier.gate.rows import Row
from metier.text import fingerprint, one_line
from metier.types import Arm, Outcome

ATTEMPTS = 3
BACKOFF = (1.0, 4.0)
"""Seconds before the second and third attempt: an overloaded service needs more than one."""
NOTE = 200
"""Characters of an error kept with a failed attempt."""
_WAIT = 0.2  # seconds between looks for an interrupt while runs are under way


@dataclass(frozen=True, slots=True)
class Unit:
    """One run: a task, with or without its skill, for the n-th time."""

    job: Job
    arm: Arm
    repeat: int
    key: str


@dataclass(frozen=True, slots=True)
class Protocol:
    """Everything that must stay the same for two runs to be comparable."""

    adapter: Adapter
    check: tuple[str, ...]
    stack: str
    repeats: int = 1
    seed: int = 0
    timeout: float = 600.0
    check_timeout: float = 120.0


@dataclass(frozen=True, slots=True)
class Plan:
    """Which runs there are, and which are done."""

    protocol: Protocol
    pairs: tuple[tuple[Unit, Unit], ...]
    """Both arms of a task and repeat, in their drawn order."""
    done: frozenset[str]

    @property
    def left(self) -> int:
        """Runs still to do."""
        return sum(unit.key not in self.done for pair in self.pairs for unit in pair)


@dataclass(slots=True)
class Outcomes:
    """How a collection ended."""

    recorded: int = 0
    open: int = 0
    """Runs that could not be judged: they stay to be done and count as nothing."""
    capped: str = ""
    notes: tuple[str, ...] = ()


def make_plan(bank: Bank, jobs: Sequence[Job], protocol: Protocol) -> Plan:
    """Both arms of every task and repeat; a run whose key is in the bank is done."""
    pairs = []
    for job in jobs:
        for repeat in range(protocol.repeats):
            first: tuple[Arm, Arm] = ("use", "skip")
            if hashlib.sha256(f"{protocol.seed}:{job.id}:{repeat}".encode()).digest()[0] % 2:
                first = ("skip", "use")
            one, two = (Unit(job, arm, repeat, _key(job, arm, repeat, protocol)) for arm in first)
            pairs.append((one, two))
    keys = {unit.key for pair in pairs for unit in pair}
    known = bank.store.rows("SELECT key FROM outcomes WHERE origin = 'check' AND stack = ?", (protocol.stack,))
    return Plan(protocol, tuple(pairs), frozenset(keys & {row["key"] for row in known}))


def _key(job: Job, arm: Arm, repeat: int, protocol: Protocol) -> str:
    adapter = protocol.adapter
    command = [part if isinstance(part, str) else "\0".join(part) for part in adapter.argv]
    how = (adapter.name, *command, adapter.stdin, adapter.deliver, adapter.url, adapter.model, *_check(job, protocol))
    with_skill = (*job.skills, *job.digests)
    return fingerprint("collect", protocol.stack, job.id, job.text, *with_skill, arm, str(repeat), *how)


def _check(job: Job, protocol: Protocol) -> tuple[str, ...]:
    return job.check or protocol.check


def collect(
    bank: Bank, plan: Plan, material: Material, limits: Limits, *, parallel: int = 1,
    progress: Callable[[int], None] = lambda done: None, backoff: Sequence[float] = BACKOFF,
    env: Mapping[str, str] | None = None,
) -> Outcomes:  # fmt: skip
    """The plan's open runs are done, as far as the caps allow; at most `parallel` pairs at once.

    Raises `InputError` for a command that cannot be started and `BankError` when another model answers than before;
    `KeyboardInterrupt` ends the running commands and keeps every finished run.
    """
    children = Children()
    ledger = Ledger(bank.store, [unit.key for pair in plan.pairs for unit in pair], limits)
    worker = _Worker(bank, plan, material, ledger, children, tuple(backoff), dict(os.environ if env is None else env))
    waiting = [pair for pair in plan.pairs if any(unit.key not in plan.done for unit in pair)]
    result = Outcomes()
    notes: list[str] = []
    with ThreadPoolExecutor(max(1, parallel)) as pool:
        running: set[Future[_Done]] = set()
        try:
            while waiting or running:
                while waiting and len(running) < max(1, parallel) and not ledger.full:
                    running.add(pool.submit(worker.pair, waiting.pop(0)))
                if not running:
                    break
                finished, running = wait(running, timeout=_WAIT, return_when=FIRST_COMPLETED)
                for future in finished:
                    done = future.result()
                    result.recorded += done.recorded
                    notes += done.notes
                    progress(result.recorded)
        finally:
            children.stop()  # whatever ended the loop, no agent runs on
    result.open = plan.left - result.recorded
    result.capped = ledger.full
    result.notes = tuple(notes)
    return result


@dataclass(slots=True)
class _Done:
    recorded: int = 0
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Judged:
    """What came of one attempt."""

    ended: str
    """done, transport, crash, check or stopped."""
    success: float | None = None
    said: Said = field(default_factory=lambda: Said(""))
    note: str = ""


class _Worker:
    """Runs the two arms of a pair one after the other."""

    def __init__(
        self, bank: Bank, plan: Plan, material: Material, ledger: Ledger, children: Children,
        backoff: tuple[float, ...], env: dict[str, str],
    ) -> None:  # fmt: skip
        self.bank, self.plan, self.material, self.ledger = bank, plan, material, ledger
        self.children, self.backoff, self.env = children, backoff, env
        self._append = threading.Lock()

    def pair(self, units: tuple[Unit, Unit]) -> _Done:
        """Both arms, as far as they are still open."""
        done = _Done()
        for unit in units:
            if unit.key in self.plan.done:
                continue
            judged = self._tried(unit)
            if judged is None:
                break
            if judged.success is None:
                why = redacted(judged.note, self.env)
                done.notes += (f"{unit.job.id} ({unit.arm}, repeat {unit.repeat}): {judged.ended}: {why}",)
            else:
                done.recorded += 1
        return done

    def _tried(self, unit: Unit) -> _Judged | None:
        """The last attempt; None when a cap or a stop forbids another one."""
        judged: _Judged | None = None
        for attempt in range(ATTEMPTS):
            if attempt and self.children.stopping.wait(self.backoff[min(attempt, len(self.backoff)) - 1]):
                return judged
            number = self.ledger.start(unit.key)
            if number is None:
                return judged
            try:
                judged = self._attempt(unit)
            except InputError as error:  # it could not even be started: nothing was spent
                self.ledger.end(number, "crash", Spent(), redacted(str(error), self.env))
                raise
            self._model(number, judged)
            if judged.ended == "done":
                self._record(unit, judged)
            spent = Spent(judged.said.tokens, judged.said.cost, judged.said.model)
            self.ledger.end(number, judged.ended, spent, redacted(judged.note, self.env))
            if judged.ended in ("done", "check", "stopped"):
                return judged
        return judged

    def _model(self, number: int, judged: _Judged) -> None:
        """The model that answered is the one that answered before, or everything stops."""
        wrong = self.ledger.mismatch(judged.said.model, self.plan.protocol.adapter.model)
        if wrong:
            spent = Spent(judged.said.tokens, judged.said.cost, judged.said.model)
            self.ledger.end(number, "mismatch", spent, wrong)
            raise BankError(f"{wrong}; nothing of that run was recorded: use another --stack for another model")

    def _record(self, unit: Unit, judged: _Judged) -> None:
        job = unit.job
        outcome = Outcome(
            task=job.text, skills=job.skills, digests=job.digests, stack=self.plan.protocol.stack, arm=unit.arm,
            success=judged.success, tokens=judged.said.tokens, family=job.family, repeat=unit.repeat, origin="check",
        )  # fmt: skip
        with self._append:
            self.bank.add([Row(outcome, name=job.name, key=unit.key)])

    def _attempt(self, unit: Unit) -> _Judged:
        """One run in a folder of its own: prepared, run, judged, removed."""
        with tempfile.TemporaryDirectory(prefix="metier-collect-", ignore_cleanup_errors=True) as made:
            room = Path(made)
            work, private = room / "work", room / "private"
            work.mkdir()
            private.mkdir(mode=0o700)
            slots = self._prepared(unit, work, private)
            adapter, protocol = self.plan.protocol.adapter, self.plan.protocol
            for name, content in adapter.private_files(slots).items():
                (private / Path(name).name).write_text(content, encoding="utf-8")
            ran = self.children.run(
                adapter.arguments(slots), cwd=work, env=self._environment(unit, slots),
                stdin=adapter.fill(adapter.stdin, slots), timeout=protocol.timeout,
            )  # fmt: skip
            told = said(adapter, ran.stdout)
            broken = _broken(adapter, ran, told)
            if broken is not None:
                return replace(broken, said=told)
            answer = private / "answer.txt"
            answer.write_text(told.answer, encoding="utf-8", errors="replace")
            return self._judged(unit, work, private, told, ran)

    def _prepared(self, unit: Unit, work: Path, private: Path) -> dict[str, str]:
        """The working folder holds the task's files and, in the `use` arm, the skill; the slots for the adapter."""
        job, adapter = unit.job, self.plan.protocol.adapter
        if job.files is not None:
            if job.files.is_dir():
                shutil.copytree(job.files, work, dirs_exist_ok=True, symlinks=True)
            else:
                shutil.copy2(job.files, work / job.files.name)
        (private / "task.txt").write_text(job.text, encoding="utf-8", errors="replace")
        slots = {"task": job.text, "skill": "", "prompt": job.text, "workdir": str(work), "private": str(private),
                 "task_file": str(private / "task.txt"), "skill_file": "", "skill_dir": "", "model": adapter.model,
                 "url": adapter.url}  # fmt: skip
        slots |= {f"env:{name}": self.env[name] for name in adapter.environment() if name in self.env}
        if unit.arm == "skip":
            return slots
        text = BETWEEN.join(self.material.text(skill) for skill in job.skills)
        (private / "skill.md").write_text(text, encoding="utf-8", errors="replace")
        slots |= {"skill": text, "skill_file": str(private / "skill.md")}
        if adapter.deliver == "prompt":
            slots["prompt"] = f"{text}{BETWEEN}{job.text}"
        for skill in job.skills if adapter.deliver in ("file", "folder") else ():
            place = work / adapter.skill_path.replace("{name}", self.material.name(skill))
            if not place.resolve().is_relative_to(work.resolve()):
                raise InputError(f"skill_path {adapter.skill_path!r} leaves the working folder; give a relative path")
            place.parent.mkdir(parents=True, exist_ok=True)
            if adapter.deliver == "file":
                place.write_text(self.material.text(skill), encoding="utf-8", errors="replace")
            else:
                self.material.copy(skill, place)
            slots["skill_dir"] = str(place if adapter.deliver == "folder" else place.parent)
        return slots

    def _environment(self, unit: Unit, slots: Mapping[str, str]) -> dict[str, str]:
        """The person's environment, less metier's own; the marker keeps metier's hooks out of both arms."""
        env = {name: value for name, value in self.env.items() if not name.startswith("METIER_")}
        env |= {"METIER_COLLECTING": "1", "METIER_TASK_FILE": slots["task_file"], "METIER_TASK_ID": unit.job.id}
        if self.plan.protocol.adapter.deliver == "env" and slots["skill"]:
            env["METIER_SKILL"] = slots["skill"]
        if slots["skill_file"]:
            env["METIER_SKILL_FILE"] = slots["skill_file"]
        return env

    def _judged(self, unit: Unit, work: Path, private: Path, told: Said, ran: Ran) -> _Judged:
        """What the check says; it sees the folder, the answer and the task, never the arm (rule 3.14)."""
        env = {name: value for name, value in self.env.items() if not name.startswith("METIER_")}
        env |= {"METIER_TASK_FILE": str(private / "task.txt"), "METIER_TASK_ID": unit.job.id,
                "METIER_ANSWER_FILE": str(private / "answer.txt")}  # fmt: skip
        checked = self.children.run(
            _check(unit.job, self.plan.protocol), cwd=work, env=env, timeout=self.plan.protocol.check_timeout
        )
        success = verdict(checked)
        if checked.stopped:
            return _Judged("stopped", None, told)
        if success is None:
            said_so = one_line(checked.stderr or checked.stdout, NOTE)
            how = "ran too long" if checked.timed_out else f"ended with status {checked.code} and no success"
            return _Judged("check", None, told, f"the check {how} ({said_so})")
        return _Judged("done", success, told, "the agent ran into the time limit" if ran.timed_out else "")


def verdict(checked: Ran) -> float | None:
    """The success a check reports: the number in [0, 1] it prints last, else status 0 or 1; None: it failed itself."""
    if checked.ours or checked.code not in (0, 1):
        return None
    lines = checked.stdout.split()
    try:
        told = float(lines[-1]) if lines else None
    except ValueError:
        told = None
    if told is None:
        return 1.0 - checked.code
    return told if 0.0 <= told <= 1.0 else None


def _broken(adapter: Adapter, ran: Ran, told: Said) -> _Judged | None:
    """Why a run says nothing about the task; None when the check may judge it.

    A time limit, garbage and a flood are the agent's own doing: the check judges what there is.
    """
    if ran.stopped:
        return _Judged("stopped")
    if ran.timed_out or ran.flooded:
        return None
    words = (ran.stderr + (told.answer if told.failed else ran.stdout[-2000:] if ran.code else "")).lower()
    blamed = next((sign for sign in TRANSPORT_SIGNS if sign in words), None)
    if ran.code in adapter.transport_exits or ((ran.code != 0 or told.failed) and blamed):
        return _Judged("transport", note=one_line(ran.stderr or told.answer or f"status {ran.code}", NOTE))
    if ran.code < 0:
        return _Judged("crash", note=f"ended by signal {-ran.code} {one_line(ran.stderr, NOTE)}".strip())
    return None

"""A language model that answers from a file: what tests and demonstrations use instead of a mock.

A line of the file is `{"prompt": sha256 of the prompt, "sample": 0, "answer": {…}}`. `Recording` wraps a real model and
writes such a file while it is used.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from metier.errors import InputError, LLMError
from metier.text import fingerprint
from metier.types import LLM


class RecordedLLM:
    """Answers by (prompt, sample), from a function or a recorded file; `asked` keeps what it was asked."""

    def __init__(self, answer: Callable[[str, int], Mapping[str, Any]], name: str = "recorded") -> None:
        self._answer, self._name = answer, name
        self.asked: list[tuple[str, int]] = []
        self._lock = threading.Lock()

    @classmethod
    def from_file(cls, path: Path) -> RecordedLLM:
        """The model whose answers stand in `path`. Raises `InputError`."""
        answers: dict[tuple[str, int], Mapping[str, Any]] = {}
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except OSError as error:
            raise InputError(f"{path}: cannot be read ({error.strerror}); give a file of recorded answers") from error
        for number, line in enumerate(lines, start=1):
            try:
                row = json.loads(line)
                answers[row["prompt"], int(row["sample"])] = row["answer"]
            except (ValueError, KeyError, TypeError) as error:
                raise InputError(f"{path}:{number}: not a recorded answer ({error}); record it again") from error

        def answer(prompt: str, sample: int) -> Mapping[str, Any]:
            found = answers.get((fingerprint(prompt), sample))
            if found is None:
                raise LLMError(f"{path}: no answer recorded for this prompt (sample {sample}); record it again")
            return found

        return cls(answer, f"recorded:{path.name}")

    @property
    def name(self) -> str:
        return self._name

    def complete(self, prompt: str, *, schema: Mapping[str, Any], sample: int = 0) -> Mapping[str, Any]:
        """The recorded answer. Raises `LLMError` where there is none."""
        with self._lock:
            self.asked.append((prompt, sample))
        return self._answer(prompt, sample)


class Recording:
    """The model `llm`, with every answer appended to `path`."""

    def __init__(self, llm: LLM, path: Path) -> None:
        self.llm, self.path = llm, path
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        return self.llm.name

    def complete(self, prompt: str, *, schema: Mapping[str, Any], sample: int = 0) -> Mapping[str, Any]:
        """The answer of the model, recorded."""
        answer = self.llm.complete(prompt, schema=schema, sample=sample)
        row = {"prompt": fingerprint(prompt), "sample": sample, "answer": dict(answer)}
        with self._lock, self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
        return answer

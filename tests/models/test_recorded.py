"""The model that answers from a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from metier.errors import InputError, LLMError
from metier.models.recorded import RecordedLLM, Recording


def test_what_was_recorded_is_answered_again(tmp_path: Path) -> None:
    file = tmp_path / "answers.jsonl"
    real = RecordedLLM(lambda prompt, sample: {"said": f"{prompt}{sample}"})
    recording = Recording(real, file)
    recording.complete("a", schema={})
    recording.complete("a", schema={}, sample=1)
    replay = RecordedLLM.from_file(file)
    assert replay.complete("a", schema={}, sample=1) == {"said": "a1"}
    assert replay.asked == [("a", 1)]
    assert replay.name == "recorded:answers.jsonl"


def test_what_was_not_recorded_is_an_error_with_the_file(tmp_path: Path) -> None:
    file = tmp_path / "answers.jsonl"
    file.write_text("", encoding="utf-8")
    with pytest.raises(LLMError, match=r"answers\.jsonl: no answer recorded"):
        RecordedLLM.from_file(file).complete("a", schema={})


def test_a_damaged_recording_is_named_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "answers.jsonl"
    file.write_text('{"prompt": "x", "sample": 0, "answer": {}}\n{"prompt": 1}\n', encoding="utf-8")
    with pytest.raises(InputError, match=r"answers\.jsonl:2: not a recorded answer"):
        RecordedLLM.from_file(file)

"""The default encoder, opening encoders by name, and the memo."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from metier.errors import ConfigError, EncoderError, MetierError
from metier.models import onnx
from metier.models.encoder import MINILM, Memo, memo, open_encoder, readable
from metier.models.onnx import OnnxEncoder
from metier.models.replay import HashEncoder
from metier.types import Kind

if TYPE_CHECKING:
    from metier.types import Vectors

FORM = "fill in this PDF form with the customer's data"
LONG = "Export every sheet of the workbook to a CSV file and check the totals. " * 60
TEXTS = [FORM, "git recovery", LONG, "Turn the incident timeline into a postmortem.", "x", LONG[:500]]


@pytest.fixture(scope="module")
def minilm() -> OnnxEncoder:
    encoder = OnnxEncoder(MINILM)
    encoder.warm()
    return encoder


def cosine(a: Vectors, b: Vectors) -> np.ndarray:
    return np.einsum("ij,ij->i", a, b)


def test_vectors_are_unit_float32_rows_of_the_profiles_dimension(minilm: OnnxEncoder) -> None:
    vectors = minilm.encode(TEXTS, kind="document")
    assert vectors.shape == (len(TEXTS), 384) and vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


def test_related_texts_lie_closer_than_unrelated_ones(minilm: OnnxEncoder) -> None:
    skills = minilm.encode(
        ["Fill PDF forms: fields, checkboxes, signatures.", "Recover lost git commits with the reflog.",
         "Tune slow SQL queries with indexes and EXPLAIN."], kind="document",
    )  # fmt: skip
    requests = minilm.encode(
        [FORM, "I ran git reset --hard and lost my commits", "this query takes 40 seconds"], kind="query"
    )
    assert (requests @ skills.T).argmax(1).tolist() == [0, 1, 2]


def test_a_vector_does_not_depend_on_the_texts_beside_it(minilm: OnnxEncoder) -> None:
    together = minilm.encode(TEXTS * 3, kind="document")
    for i, text in enumerate(TEXTS):
        alone = minilm.encode([text], kind="document")[0]
        assert all(np.array_equal(alone, together[i + k * len(TEXTS)]) for k in range(3))


def test_the_number_of_workers_changes_nothing() -> None:
    one, many = OnnxEncoder(MINILM, workers=1), OnnxEncoder(MINILM, workers=4)
    assert np.array_equal(one.encode(TEXTS, kind="document"), many.encode(TEXTS, kind="document"))


def test_blank_texts_are_rows_of_zeros_and_no_texts_are_no_rows(minilm: OnnxEncoder) -> None:
    vectors = minilm.encode(["", FORM, " \n\t"], kind="query")
    assert not vectors[0].any() and vectors[1].any() and not vectors[2].any()
    assert minilm.encode([], kind="query").shape == (0, 384)


@pytest.mark.parametrize("text", ["\ud800 lone surrogate", "\0\x01\x02", "🎉" * 500, "a" * 5000, "[SEP] [MASK] [PAD]"])
def test_odd_texts_get_finite_unit_vectors(minilm: OnnxEncoder, text: str) -> None:
    vector = minilm.encode([text], kind="document")[0]
    assert np.isfinite(vector).all() and abs(np.linalg.norm(vector) - 1) < 1e-5


def test_text_after_max_tokens_is_not_seen(minilm: OnnxEncoder) -> None:
    start = "one two three four five " * 60
    assert np.array_equal(*minilm.encode([start + "pdf", start + "sql " * 9000], kind="document"))


def test_a_text_of_spaces_and_few_words_is_read_to_its_end(minilm: OnnxEncoder) -> None:
    sparse = "pdf" + " " * 20_000 + "spreadsheet"
    np.testing.assert_allclose(*minilm.encode([sparse, "pdf spreadsheet"], kind="document"), atol=1e-6)


def test_a_cold_request_needs_no_onnxruntime_and_agrees_with_it(
    minilm: OnnxEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    cold = OnnxEncoder(MINILM)
    requests = [FORM, "turn the incident timeline into a postmortem", "übersetze das Café-Menü 中文"]
    by_numpy = cold.encode(requests, kind="query")
    assert cold._session is None
    assert cosine(by_numpy, minilm.encode(requests, kind="query")).min() > 0.99
    assert np.array_equal(by_numpy[:1], OnnxEncoder(MINILM).encode(requests[:1], kind="query"))


def test_documents_long_requests_and_many_requests_start_onnxruntime(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    document, long, many = (OnnxEncoder(MINILM) for _ in range(3))
    document.encode([FORM], kind="document")
    long.encode([LONG], kind="query")
    for i in range(onnx.COLD_TOKENS // 5 + 1):
        many.encode([f"request number {i}"], kind="query")
    assert all(encoder._session is not None for encoder in (document, long, many))


def test_with_several_blas_threads_requests_go_to_onnxruntime_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in onnx.ONE_THREAD:
        monkeypatch.setenv(name, "2")
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setattr(onnx, "_processors", lambda: 2)
    encoder = OnnxEncoder(MINILM)
    encoder.encode([FORM], kind="query")
    assert encoder._session is not None


def test_threads_may_share_an_encoder() -> None:
    encoder, got = OnnxEncoder(MINILM), {}

    def ask(i: int) -> None:
        got[i] = encoder.encode([TEXTS[i]], kind="document")[0]

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(TEXTS))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = encoder.encode(TEXTS, kind="document")
    assert all(np.array_equal(got[i], expected[i]) for i in range(len(TEXTS)))


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [(FORM, 1.0, 1.0), ("Bitte fülle dieses Formular aus", 0.8, 1.0), ("123 + 4 = ?", 1.0, 1.0), ("", 1.0, 1.0),
     ("请帮我填写这个表格", 0.0, 0.1), ("Прочитай этот файл", 0.0, 0.3), ("이 양식을 작성해 주세요", 0.0, 0.1)],
)  # fmt: skip
def test_readable_tells_scripts_the_encoder_knows_from_those_it_does_not(text: str, low: float, high: float) -> None:
    assert low <= OnnxEncoder(MINILM).readable(text) <= high


def test_a_folder_without_pieces_still_says_what_it_can_read(tmp_path: Path) -> None:
    folder = copy(tmp_path)
    (folder / "pieces.tsv").unlink()
    encoder = OnnxEncoder(folder)
    assert encoder.readable("fill in the form") == 1.0 and encoder.readable("🎉 🎉") == 0.0
    assert np.array_equal(encoder.encode([FORM], kind="query"), OnnxEncoder(MINILM).encode([FORM], kind="document"))


@pytest.mark.parametrize("change", ["emptied", "cut", "edited"])
def test_a_vocabulary_that_was_changed_is_told_and_not_ranked_with(tmp_path: Path, change: str) -> None:
    folder = copy(tmp_path)
    pieces = (folder / "pieces.tsv").read_bytes()
    other = {"emptied": b"", "cut": pieces[:200_000], "edited": pieces.replace(b"form\t2433", b"form\t2434")}[change]
    assert other != pieces
    (folder / "pieces.tsv").write_bytes(other)
    with pytest.raises(EncoderError, match=r"pieces\.tsv: its size and checksum are .* copy the file again"):
        OnnxEncoder(folder).readable(FORM)
    (folder / "pieces.tsv").unlink()
    assert np.array_equal(
        OnnxEncoder(folder).encode([FORM], kind="query"), OnnxEncoder(MINILM).encode([FORM], kind="document")
    ), "the remedy that the message names"


@pytest.mark.parametrize("spec", ["~nosuchuser/x", "st:~nosuchuser/x"])
def test_the_home_of_a_user_whom_nobody_knows_is_named(spec: str) -> None:
    with pytest.raises(MetierError, match=r"nosuchuser"):
        open_encoder(spec)


def copy(tmp_path: Path) -> Path:
    return Path(shutil.copytree(MINILM, tmp_path / "encoder"))


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("model.onnx", None, "has no model.onnx"),
        ("model.onnx", "not a model", "onnxruntime cannot open it"),
        ("tokenizer.json", None, "tokenizer.json is missing"),
        ("tokenizer.json", "{", "not a tokenizer"),
        ("profile.json", None, "profile.json is missing"),
        ("profile.json", "[1]", "must be one JSON object"),
        ("profile.json", "nonsense", "not JSON"),
        ("profile.json", '{"name": "x", "dim": 384, "max_tokens": 256, "projektion": []}', "unknown key 'projektion'"),
        ("profile.json", '{"name": "x"}', "name, dim and max_tokens are required"),
        ("profile.json", '{"name": "x", "dim": 0, "max_tokens": 256}', "dim must be a whole number above 0"),
        ("profile.json", '{"name": "x", "dim": 384, "max_tokens": 256, "alpha": 2}', "alpha must lie in [0, 1]"),
        ("profile.json", '{"name": "x", "dim": 384, "max_tokens": 256, "floor": [[9, 0.1], [1, 0.2]]}', "ascending"),
        ("profile.json", '{"name": "x", "dim": 100, "max_tokens": 256}', "dim is 100, the model gives 384"),
    ],
)
def test_a_damaged_folder_is_reported_with_its_file_and_a_remedy(
    tmp_path: Path, name: str, content: str | None, said: str
) -> None:
    folder = copy(tmp_path)
    if content is None:
        (folder / name).unlink()
    else:
        (folder / name).write_text(content, encoding="utf-8")
    with pytest.raises(EncoderError) as caught:
        OnnxEncoder(folder).encode([FORM], kind="document")
    message = str(caught.value)
    assert said in message and str(folder) in message and "\n" not in message


def test_a_damaged_model_is_reported_by_a_cold_request_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    folder = copy(tmp_path)
    data = (folder / "model.onnx").read_bytes()
    for broken in (b"not a model", data[: len(data) // 2], b""):
        (folder / "model.onnx").write_bytes(broken)
        with pytest.raises(EncoderError, match="onnxruntime cannot open it"):
            OnnxEncoder(folder).encode([FORM], kind="query")


def test_encoders_open_by_name_and_by_folder(tmp_path: Path) -> None:
    assert open_encoder().profile == open_encoder("minilm").profile == open_encoder(str(copy(tmp_path))).profile
    assert open_encoder("hash").profile.dim == 256


@pytest.mark.parametrize("spec", ["", "nowhere", "st:", "openai:", "/no/such/folder", "http://x"])
def test_an_unknown_encoder_is_refused_with_the_forms_there_are(spec: str) -> None:
    with pytest.raises(ConfigError, match=r"use minilm, hash, a folder with model.onnx, st:NAME or openai:MODEL@URL"):
        open_encoder(spec)


class Counting(HashEncoder):
    """Keeps what it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[Kind, str]] = []

    def encode(self, texts: list[str], *, kind: Kind) -> Vectors:  # type: ignore[override]
        self.asked += [(kind, text) for text in texts]
        return super().encode(texts, kind=kind)


def test_the_memo_asks_once_for_each_text_and_kind() -> None:
    inner = Counting()
    encoder = memo(inner)
    first = encoder.encode(["a b", "c d", "a b"], kind="query")
    again = encoder.encode(["c d", "e f"], kind="query")
    encoder.encode(["a b"], kind="document")
    assert inner.asked == [("query", "a b"), ("query", "c d"), ("query", "e f"), ("document", "a b")]
    assert np.array_equal(first[0], first[2]) and np.array_equal(first[1], again[0])
    assert np.array_equal(first, HashEncoder().encode(["a b", "c d", "a b"], kind="query"))


def test_the_memo_forgets_what_was_asked_longest_ago() -> None:
    inner = Counting()
    encoder = Memo(inner, size=2)
    for text in ("one", "two", "one", "three", "one", "two"):
        encoder.encode([text], kind="query")
    assert [text for _, text in inner.asked] == ["one", "two", "three", "two"]


def test_more_texts_than_the_memo_holds_leave_it_as_it_was() -> None:
    inner = Counting()
    encoder = Memo(inner, size=2)
    encoder.encode(["kept"], kind="query")
    assert encoder.encode(["1", "2", "3"], kind="query").shape == (3, 256)
    encoder.encode(["kept"], kind="query")
    assert [text for _, text in inner.asked] == ["kept", "1", "2", "3"]


def test_what_the_memo_returns_may_be_changed_without_harm() -> None:
    encoder = memo(HashEncoder())
    encoder.encode(["pdf"], kind="query")[:] = 0
    assert encoder.encode(["pdf"], kind="query").any()


def test_a_memo_of_a_memo_is_the_memo_and_passes_on_what_the_encoder_can_read() -> None:
    hashed, real = memo(HashEncoder()), memo(OnnxEncoder(MINILM))
    assert memo(hashed) is hashed and hashed.profile == HashEncoder().profile
    assert hashed.readable("请帮我") == 1.0 and real.readable("请帮我") == 0.0 == readable(real, "请帮我")


def test_an_empty_call_of_the_memo_is_empty() -> None:
    assert memo(HashEncoder()).encode([], kind="query").shape == (0, 256)

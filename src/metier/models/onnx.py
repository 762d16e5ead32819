"""An encoder folder, run by onnxruntime on this machine's processor; nothing is ever downloaded.

Each text is run alone, on one thread, and many texts are spread over threads. Activations are quantised per run, so
in a padded batch a vector would depend on its neighbours (cosine down to 0.987, measured); alone it cannot. It is
also the fastest way found: 99 skills/s at 256 tokens on two cores, against 82 in batches of 16 and 72 with both cores
inside one run.

A process that asks for one short vector and ends should not wait 60 ms for onnxruntime to start: such requests are
run by `bert.py` from the same file until they have cost as much as starting would.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from metier.errors import EncoderError
from metier.models.profiles import read_profile
from metier.models.wordpiece import WordPiece
from metier.types import Kind, Profile

if TYPE_CHECKING:
    from metier.models.bert import Bert
    from metier.types import Vectors

COLD_TOKENS = 160
"""Request tokens after which onnxruntime is started: numpy then spent as long on them (0.37 ms each) as that takes."""
ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
"""Any of them at 1 means that numpy multiplies on one thread. On more, its threads wait for each other by spinning:
1,300 ms a request instead of 8 when another process wants the cores (measured). Our own commands set the first."""
COLD_CHARACTERS = 6 * COLD_TOKENS
"""No need to count the tokens of a text longer than this: English has about five characters a token."""
MOST_WORKERS = 8
"""Threads that encode many texts, at most; each holds one text's activations."""
CUT = 8
"""Characters a token covers at most, nearly always; the tokenizer is given so many times `max_tokens` first."""


class OnnxEncoder:
    """`folder` with model.onnx, tokenizer.json and profile.json as an `Encoder`; safe to share between threads."""

    def __init__(self, folder: str | Path, *, workers: int | None = None) -> None:
        """Reads the profile only; model and tokenizer are opened when first needed.

        `workers` bounds the threads of a call with many texts (default: this process's processors, at most 8).
        Raises `EncoderError` when the folder or its profile cannot be used.
        """
        self.folder = Path(folder)
        if not (self.folder / "model.onnx").is_file():
            raise EncoderError(f"{self.folder}: has no model.onnx; name a folder made by `metier train`, or 'minilm'.")
        self.profile: Profile
        self.profile, self._network = read_profile(self.folder)
        self._workers = max(1, workers or min(MOST_WORKERS, _processors()))
        self._lock = threading.RLock()
        self._session: Any = None
        self._tokenizer: Any = None
        self._inputs: tuple[str, ...] = ()
        self._pieces: WordPiece | None = None
        self._cold: Bert | None = None
        self._left = COLD_TOKENS if self._network and _one_thread() and (self.folder / "pieces.tsv").is_file() else 0

    def __repr__(self) -> str:
        return f"OnnxEncoder({self.profile.name!r})"

    def encode(self, texts: Sequence[str], *, kind: Kind) -> Vectors:
        """float32 (len(texts), dim) unit rows, each independent of the others; a blank text is a row of zeros.

        Texts are cut at `profile.max_tokens`. Raises `EncoderError` when the model cannot be opened or run.
        """
        prefix = self.profile.query_prefix if kind == "query" else self.profile.document_prefix
        vectors = np.zeros((len(texts), self.profile.dim), np.float32)
        rows = [i for i, text in enumerate(texts) if text and not text.isspace()]
        wanted = [_valid(prefix + texts[i]) for i in rows]
        if not wanted:
            return vectors
        if kind == "query" and self._session is None and (cold := self._run_cold(wanted)) is not None:
            vectors[rows] = cold
            return vectors
        self.warm()
        self._spread(wanted, rows, vectors)
        return vectors

    def warm(self) -> None:
        """Onnxruntime runs and the tokenizer is loaded; a server calls this before its first request."""
        if self._session is not None:
            return
        with self._lock:
            if self._session is None:
                self._tokenizer = _open_tokenizer(self.folder / "tokenizer.json", self.profile.max_tokens)
                session = _open_session(self.folder / "model.onnx")
                self._inputs = tuple(given.name for given in session.get_inputs())
                self._session = session
                self._cold = None

    def readable(self, text: str) -> float:
        """Share of the text's letters (0..1) that the vocabulary knows in pieces longer than one letter (methods 1.13).

        English gives 1, other Latin scripts most of it; Chinese, Cyrillic or Arabic, which this encoder sees as
        single letters or unknown, give about 0. A text without letters is readable.
        """
        pieces = self._word_pieces()
        if pieces is None:
            return self._known_share(text)
        seen = total = 0
        for piece in pieces.pieces(_valid(text)):
            if piece is None:
                total += 1
                continue
            letters = sum(map(str.isalpha, piece))
            total += letters
            if letters > 1 or (piece.isascii() and not piece.startswith("##")):
                seen += letters
        return seen / total if total else 1.0

    def _known_share(self, text: str) -> float:
        """For tokenizers of other kinds: the share of tokens that are not unknown."""
        self.warm()
        tokens = self._tokenizer.encode(_valid(text), add_special_tokens=False).tokens
        unknown = sum(token in ("[UNK]", "<unk>") for token in tokens)
        return 1.0 - unknown / len(tokens) if tokens else 1.0

    def _run_cold(self, texts: Sequence[str]) -> Vectors | None:
        """The vectors by numpy, or None when onnxruntime should start instead."""
        if sum(map(len, texts)) > COLD_CHARACTERS:
            return None
        with self._lock:
            pieces = self._word_pieces()
            if pieces is None or self._left <= 0:
                return None
            ids = [pieces.ids(text, self.profile.max_tokens) for text in texts]
            tokens = sum(map(len, ids))
            if tokens > self._left:
                self._left = 0
                return None
            bert = self._cold or self._open_cold()
            if bert is None:
                return None
            self._left -= tokens
            return bert.vectors(ids)

    def _open_cold(self) -> Bert | None:
        from metier.models.bert import Bert

        assert self._network is not None
        try:
            self._cold = Bert(self.folder / "model.onnx", self._network)
        except (KeyError, ValueError):  # made by other tools: onnxruntime knows what to do with it
            self._left = 0
        return self._cold

    def _word_pieces(self) -> WordPiece | None:
        path = self.folder / "pieces.tsv"
        if self._pieces is None and path.is_file():
            self._pieces = WordPiece(path, self._network.pieces if self._network else "")
        return self._pieces

    def _spread(self, texts: Sequence[str], rows: Sequence[int], vectors: Vectors) -> None:
        """Fills `vectors[rows]`; several threads take the next text each until none is left."""
        from concurrent.futures import ThreadPoolExecutor

        todo = iter(range(len(texts)))
        workers = min(self._workers, len(texts))
        if workers == 1:
            self._take(todo, texts, rows, vectors)
            return
        stop = threading.Event()
        with ThreadPoolExecutor(workers, thread_name_prefix="metier-encode") as pool:
            try:
                for done in [pool.submit(self._take, todo, texts, rows, vectors, stop) for _ in range(workers)]:
                    done.result()
            finally:
                stop.set()  # on an error or Ctrl-C no thread begins another text

    def _take(
        self,
        todo: Iterator[int],
        texts: Sequence[str],
        rows: Sequence[int],
        vectors: Vectors,
        stop: threading.Event | None = None,
    ) -> None:
        for i in todo:
            if stop is not None and stop.is_set():
                return
            vectors[rows[i]] = self._vector(texts[i])

    def _vector(self, text: str) -> Vectors:
        ids = np.array([self._ids(text)], np.int64)
        feed = {name: _input(name, ids) for name in self._inputs}
        try:
            out = self._session.run(None, feed)[0]
        except _onnx_errors() as error:
            raise EncoderError(f"{self.folder}/model.onnx: failed on a text of {ids.size} tokens: {error}") from error
        vector = out[0].mean(0) if out.ndim == 3 else out[0]
        if vector.shape != (self.profile.dim,):
            raise EncoderError(
                f"{self.folder}/profile.json: dim is {self.profile.dim}, the model gives {vector.size}; correct it."
            )
        unit: Vectors = vector / np.sqrt(np.dot(vector, vector))
        return unit

    def _ids(self, text: str) -> list[int]:
        """Token ids; a long text is cut before it is tokenised, unless that would leave too little."""
        start = text[: CUT * self.profile.max_tokens]
        tokens = self._tokenizer.encode(start)
        if len(start) < len(text) and not tokens.overflowing:
            tokens = self._tokenizer.encode(text)
        ids: list[int] = tokens.ids
        return ids


def _one_thread() -> bool:
    return any(os.environ.get(name) == "1" for name in ONE_THREAD) or sys.platform == "darwin" or _processors() == 1


def _processors() -> int:
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def _valid(text: str) -> str:
    """The text without lone surrogates, which no tokenizer takes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


def _input(name: str, ids: Any) -> Any:
    if name == "input_ids":
        return ids
    if name in ("attention_mask", "token_type_ids"):
        return np.ones_like(ids) if name == "attention_mask" else np.zeros_like(ids)
    raise EncoderError(f"model.onnx wants an input {name!r}; only text encoders over token ids can be used.")


def _open_tokenizer(path: Path, max_tokens: int) -> Any:
    from tokenizers import Tokenizer

    try:
        text = path.read_text(encoding="utf-8")
        if "model" not in json.loads(text):
            raise ValueError("it has no 'model'")
    except FileNotFoundError:
        raise EncoderError(f"{path} is missing; it belongs beside model.onnx, export the encoder again.") from None
    except (ValueError, TypeError) as error:
        raise EncoderError(f"{path}: not a tokenizer ({error}); export the encoder again.") from error
    tokenizer = Tokenizer.from_str(text)
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_tokens)
    return tokenizer


def _open_session(path: Path) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1  # one thread a text (methods 1.14)
    options.enable_mem_pattern = False  # lengths differ; a remembered pattern for each only takes memory
    options.log_severity_level = 3
    if _saturates():
        options.add_session_config_entry("session.x64quantprecision", "1")
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except _onnx_errors() as error:
        raise EncoderError(f"{path}: onnxruntime cannot open it ({error}); export the encoder again.") from error


def _saturates() -> bool:
    """Whether this x86 processor adds int8 products in 16 bits (AVX2 without VNNI), where sums can overflow.

    Emulated as a Haswell, the overflow costs 0.0026 of cosine to float32 and the exact kernel restores it; where the
    processor cannot be asked that is borne.
    """
    try:
        about = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return False
    return "avx2" in about and "vnni" not in about


def _onnx_errors() -> tuple[type[Exception], ...]:
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    names = ("Fail", "InvalidArgument", "InvalidGraph", "InvalidProtobuf", "NoSuchFile", "NotImplemented",
             "RuntimeException")  # fmt: skip
    return (RuntimeError, *(getattr(state, name) for name in names if hasattr(state, name)))

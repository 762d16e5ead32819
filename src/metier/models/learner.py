"""The encoder while it is trained: what a batch is, how it is embedded, and its contrastive loss (SkillRep, rule 1.8).

loss(i) = −log  exp(q_i·d_i / τ)  /  Σ_c exp(q_i·d_c / τ)        c over the batch's skills and its hard negatives,
                                                                 but those that mean the same skill as d_i
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from metier.errors import InputError, MissingExtra

CUTOFF = 10
"""Held-out requests are scored by MRR@10, what the paper reports."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How to train; the defaults are the paper's where it states them (rule 1.8)."""

    epochs: int = 1  # SkillRep: 1
    batch: int = 64  # largest that two CPU cores train within 4 GB
    rate: float = 2e-5  # SkillRep: AdamW, 2e-5
    temperature: float = 0.05  # SkillRep
    warmup: float = 0.05  # SkillRep: share of the steps
    decay: float = 0.01  # AdamW's usual weight decay
    negatives: int = 3  # SkillRep: at least three hard negatives a pair
    hard: float = 1.0
    """Share of a batch's pairs that bring their negatives along; less where compute is scarce."""
    joined: float = 0.0
    """Share of the requests that are asked together with one to three others, as agents' long tasks are."""
    anywhere: float = 0.0
    """Share of the requests longer than is read that are read from some other place than their beginning."""
    document_tokens: int = 256  # more is slower and worse with the embedded encoder
    request_tokens: int = 256
    seed: int = 0
    every: int = 25
    """Steps between held-out scores and checkpoints."""
    patience: int = 6
    """Held-out scores without a new best before the run stops; 0 never stops."""
    micro: int = 0
    """Texts per forward pass where the batch does not fit (gradients are cached, the loss is the same); 0: all."""
    bf16: bool = True
    threads: int = 2

    def checked(self) -> Settings:
        """Itself. Raises `InputError` for values that cannot train."""
        for name, low in (("epochs", 1), ("batch", 2), ("document_tokens", 8), ("request_tokens", 8), ("every", 1)):
            if getattr(self, name) < low:
                raise InputError(f"train: {name} is {getattr(self, name)}; it must be at least {low}")
        if not (
            0 < self.temperature <= 1
            and 0 < self.rate < 1
            and 0 <= self.warmup < 1
            and self.negatives >= 0 <= self.hard <= 1
            and 0 <= self.joined <= 1
            and 0 <= self.anywhere <= 1
        ):
            raise InputError(f"train: temperature, rate, warmup or negatives out of range in {self}; see the defaults")
        return self


@dataclass(frozen=True, slots=True)
class Example:
    """One request, the row of the document that answers it, and rows that look right but are not."""

    request: str
    document: int
    negatives: tuple[int, ...] = ()
    body_only: bool = False
    """Read the body alone: the request was taken from the card (weak pairs)."""
    also: tuple[int, ...] = ()
    """Rows of further documents that answer it: never its negatives."""


@dataclass(frozen=True, slots=True)
class Corpus:
    """Documents by row: their readings, and the group of rows that mean the same.

    A reading is the texts whose unit mean is the document's vector: first the body alone, then what the index makes
    (card and body), then the same in other notations; one reading where a document has one text.
    """

    readings: Sequence[tuple[tuple[str, ...], ...]]
    groups: Sequence[int]

    def indexed(self, row: int) -> tuple[str, ...]:
        """The texts that the index would make the row's vector of."""
        return self.readings[row][min(1, len(self.readings[row]) - 1)]


def blocked(
    own: Sequence[int], columns: Sequence[int], groups: Sequence[int], also: Sequence[set[int]] = ()
) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """(len(own), len(columns)) bool: true where a column means the same as the row's document, but at its own place.

    `columns` begins with `own`, so the diagonal is each request's positive. `also` are further groups that answer a
    row's request.
    """
    theirs = np.array([groups[d] for d in columns])
    same: np.ndarray[Any, np.dtype[np.bool_]] = np.array([groups[d] for d in own])[:, None] == theirs[None, :]
    for row, more in enumerate(also):
        if more:
            same[row] |= np.isin(theirs, list(more))
    np.fill_diagonal(same, False)
    return same


def together(
    example: Example, others: Sequence[Example], draw: np.random.Generator, share: float
) -> tuple[str, list[int]]:
    """The request, or, for a `share` of them, it among one to three others in any order; and the others' documents."""
    wanted = int(draw.integers(1, 4)) if draw.random() < share else 0
    fair = [other for other in others if not other.body_only]
    picked = [fair[i] for i in draw.permutation(len(fair))[:wanted].tolist()] if not example.body_only else []
    parts = [example.request, *(other.request for other in picked)]
    documents = [row for other in picked for row in (other.document, *other.also)]
    return "\n\n".join(parts[i] for i in draw.permutation(len(parts)).tolist()), documents


def mean_reciprocal_rank(scores: np.ndarray[Any, Any], gold: Sequence[int], k: int = CUTOFF) -> float:
    """MRR@k in percent of rows of scores; ties are counted against the gold."""
    own = scores[np.arange(len(gold)), list(gold)]
    ranks = (scores >= own[:, None]).sum(axis=1)
    return float(100 * np.where(ranks <= k, 1.0 / ranks, 0.0).mean()) if len(gold) else 0.0


def need_torch() -> Any:
    """The torch module. Raises `MissingExtra`."""
    try:
        import safetensors
        import tokenizers
        import torch
        import transformers
    except ImportError as error:
        raise MissingExtra("train", "torch and transformers", "fine-tuning") from error
    del safetensors, tokenizers, transformers
    return torch


class Learner:
    """The encoder under training: tokenizer, transformer, pooling and prefixes as `base` states them."""

    def __init__(self, base: Path, settings: Settings) -> None:
        from tokenizers import Tokenizer
        from transformers import AutoConfig, AutoModel

        self.torch = need_torch()
        self.settings = settings
        self.device = "cuda" if self.torch.cuda.is_available() else "cpu"
        if not (base / "config.json").is_file():
            raise InputError(f"{base}: no config.json; give the folder of a transformers encoder")
        config = AutoConfig.from_pretrained(base, local_files_only=True)
        for name in ("hidden_dropout_prob", "attention_probs_dropout_prob", "attention_dropout", "dropout"):
            if hasattr(config, name):
                setattr(config, name, 0.0)  # no noise: fast attention, and the same steps again after a kill
        self.model = AutoModel.from_pretrained(
            base, config=config, local_files_only=True, use_safetensors=True, dtype=self.torch.float32
        ).to(self.device)
        self.tokenizer = Tokenizer.from_file(str(base / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.no_truncation()
        self.pooling, self.prefixes = _pooling(base), _prefixes(base)

    def weights(self) -> dict[str, Any]:
        """A copy of all weights, on the CPU."""
        return {k: v.detach().to("cpu", copy=True) for k, v in self.model.state_dict().items()}

    def tokens(self, texts: Sequence[str], kind: str) -> list[list[int]]:
        """Token ids with the prefix of `kind`, cut to its length with the closing token kept."""
        limit = self.settings.request_tokens if kind == "query" else self.settings.document_tokens
        self.tokenizer.enable_truncation(limit)
        return [
            e.ids for e in self.tokenizer.encode_batch([self.prefixes.get(kind, "") + t[: limit * 16] for t in texts])
        ]

    def asked(self, texts: Sequence[str], draw: np.random.Generator) -> list[list[int]]:
        """Token ids of requests; of those too long, `Settings.anywhere` are read from a place drawn at random."""
        limit = self.settings.request_tokens
        self.tokenizer.no_truncation()
        whole = [e.ids for e in self.tokenizer.encode_batch([self.prefixes.get("query", "") + t for t in texts])]
        out = []
        for ids in whole:
            spare = len(ids) - limit
            wanted, place = draw.random() < self.settings.anywhere, draw.random()  # as many draws whatever is read
            start = 1 + round(place * spare) if spare > 0 and wanted else 1
            out.append([ids[0], *ids[start : start + limit - 2], ids[-1]] if spare > 0 else ids)
        return out

    def embed(self, tokens: Sequence[Sequence[int]]) -> Any:
        """Unit vectors (n, dim) of token rows, with gradients where they are on; padding never reaches a vector."""
        torch = self.torch
        width = max(map(len, tokens))
        ids = torch.zeros((len(tokens), width), dtype=torch.long)
        mask = torch.zeros((len(tokens), width), dtype=torch.long)
        for row, one in enumerate(tokens):
            ids[row, : len(one)] = torch.tensor(one)
            mask[row, : len(one)] = 1
        ids, mask = ids.to(self.device), mask.to(self.device)
        with torch.autocast(self.device, dtype=torch.bfloat16, enabled=self.settings.bf16):
            hidden = self.model(input_ids=ids, attention_mask=mask).last_hidden_state
        hidden = hidden.float()
        if self.pooling == "mean":
            weight = mask.unsqueeze(-1).float()
            pooled = (hidden * weight).sum(1) / weight.sum(1)
        elif self.pooling == "last":
            pooled = hidden[torch.arange(len(tokens), device=self.device), mask.sum(1) - 1]
        else:
            pooled = hidden[:, 0]
        return torch.nn.functional.normalize(pooled, dim=-1)

    def spread(self, tokens: Sequence[Sequence[int]], size: int) -> list[list[int]]:
        """Rows in runs of at most `size`, sorted by length so that padding stays small."""
        order = sorted(range(len(tokens)), key=lambda row: (len(tokens[row]), row))
        return [order[start : start + size] for start in range(0, len(order), size)]

    def loss(self, requests: Any, documents: Any, stop: Any) -> Any:
        """InfoNCE of (B, dim) requests against (C ≥ B, dim) documents; `stop` marks columns left out."""
        scores = requests @ documents.T / self.settings.temperature
        scores = scores.masked_fill(stop, float("-inf"))
        return self.torch.nn.functional.cross_entropy(scores, self.torch.arange(len(requests), device=scores.device))

    def step(
        self, batch: Sequence[Example], corpus: Corpus, number: int, optimiser: Any, others: Sequence[Example] = ()
    ) -> float:
        """One optimiser step; the loss before it. `others` are what requests may be joined with."""
        torch, settings = self.torch, self.settings
        draw = np.random.default_rng((settings.seed, 1, number))
        own = [e.document for e in batch]
        held = {corpus.groups[d] for e in batch for d in (e.document, *e.also)}
        extra: dict[int, None] = {}
        for example in batch[: round(settings.hard * len(batch))]:
            taken = draw.permutation(len(example.negatives))[: settings.negatives].tolist()
            extra.update(
                dict.fromkeys(example.negatives[i] for i in taken if corpus.groups[example.negatives[i]] not in held)
            )
        columns = own + list(extra)
        plain = [e.body_only for e in batch] + [False] * len(extra)
        read = [_read(corpus.readings[d], draw, body) for d, body in zip(columns, plain, strict=True)]
        asked = [together(e, others, draw, settings.joined) for e in batch]
        tokens = self.asked([text for text, _ in asked], draw)
        tokens += self.tokens([text for texts in read for text in texts], "document")
        answers = [[*e.also, *more] for e, (_, more) in zip(batch, asked, strict=True)]
        rows = blocked(own, columns, corpus.groups, [{corpus.groups[d] for d in more} for more in answers])
        stop = torch.from_numpy(rows).to(self.device)
        parts = [len(texts) for texts in read]
        self.model.train()
        optimiser.zero_grad(set_to_none=True)
        if settings.micro:
            loss = self._cached(tokens, len(batch), parts, stop)
        else:
            vectors = self._whole(tokens)
            loss = self.loss(vectors[: len(batch)], self.pooled(vectors[len(batch) :], parts), stop)
            loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        optimiser.step()
        return float(loss.detach())

    def pooled(self, vectors: Any, parts: Sequence[int]) -> Any:
        """Unit means of consecutive rows, `parts` of them each."""
        torch = self.torch
        owner = torch.tensor(np.repeat(np.arange(len(parts)), parts), device=vectors.device)
        sums = torch.zeros((len(parts), vectors.shape[1]), device=vectors.device).index_add(0, owner, vectors)
        return torch.nn.functional.normalize(sums, dim=-1)

    def _whole(self, tokens: Sequence[Sequence[int]]) -> Any:
        """All vectors in order, encoded in runs of like length (a quarter of the texts each)."""
        runs = self.spread(tokens, max(1, -(-len(tokens) // 4)))
        parts = self.torch.cat([self.embed([tokens[row] for row in run]) for run in runs])
        back = self.torch.tensor(np.argsort([row for run in runs for row in run]), device=parts.device)
        return parts[back]

    def _cached(self, tokens: Sequence[Sequence[int]], requests: int, counts: Sequence[int], stop: Any) -> Any:
        """The loss of the whole batch with gradients accumulated run by run (gradient caching, GradCache)."""
        torch = self.torch
        runs = self.spread(tokens, self.settings.micro)
        order = [row for run in runs for row in run]
        with torch.no_grad():
            parts = torch.cat([self.embed([tokens[row] for row in run]) for run in runs])
        vectors = parts[torch.tensor(np.argsort(order), device=parts.device)].requires_grad_()
        loss = self.loss(vectors[:requests], self.pooled(vectors[requests:], counts), stop)
        loss.backward()
        for run in runs:
            again = self.embed([tokens[row] for row in run])
            (again * vectors.grad[torch.tensor(run, device=parts.device)]).sum().backward()
        return loss

    def encode(self, texts: Sequence[str], kind: str, size: int = 32) -> np.ndarray[Any, np.dtype[np.float32]]:
        """float32 (n, dim) unit rows, without gradients."""
        self.model.eval()
        tokens = self.tokens(texts, kind)
        out: np.ndarray[Any, np.dtype[np.float32]] = np.zeros(
            (len(texts), int(self.model.config.hidden_size)), np.float32
        )
        with self.torch.no_grad():
            for run in self.spread(tokens, size):
                out[run] = self.embed([tokens[row] for row in run]).cpu().numpy()
        return out

    def held_out(self, corpus: Corpus, examples: Sequence[Example]) -> float:
        """MRR@10 in percent of the weights as they are now."""
        return held_out_score(self.encode, corpus, examples)


def held_out_score(
    encode: Callable[[Sequence[str], str], np.ndarray[Any, np.dtype[np.float32]]],
    corpus: Corpus,
    examples: Sequence[Example],
) -> float:
    """MRR@10 in percent over the held-out documents, as the index makes them, and the negatives of their requests."""
    rows = list(dict.fromkeys([e.document for e in examples] + [n for e in examples for n in e.negatives]))
    place = {row: n for n, row in enumerate(rows)}
    read = [corpus.indexed(row) for row in rows]
    texts = encode([text for one in read for text in one], "document")
    documents = np.add.reduceat(texts, np.cumsum([0, *(len(one) for one in read[:-1])]), axis=0)
    documents /= np.linalg.norm(documents, axis=1, keepdims=True)
    scores = encode([e.request for e in examples], "query") @ documents.T
    groups = np.array([corpus.groups[row] for row in rows])
    for n, example in enumerate(examples):  # a twin of the gold is no competitor
        twins = np.isin(groups, [corpus.groups[row] for row in (example.document, *example.also)])
        twins[place[example.document]] = False
        scores[n, twins] = -np.inf
    return mean_reciprocal_rank(scores, [place[e.document] for e in examples])


def _pooling(base: Path) -> str:
    path = base / "1_Pooling" / "config.json"
    if not path.is_file():
        return "mean"
    stated = json.loads(path.read_text(encoding="utf-8"))
    if stated.get("pooling_mode_lasttoken"):
        return "last"
    return "cls" if stated.get("pooling_mode_cls_token") else "mean"


def _prefixes(base: Path) -> dict[str, str]:
    """{query, document} → text put before it, from sentence-transformers' own file of prompts."""
    path = base / "config_sentence_transformers.json"
    stated = json.loads(path.read_text(encoding="utf-8")).get("prompts", {}) if path.is_file() else {}
    return {kind: str(stated.get(kind) or "") for kind in ("query", "document")}


def _read(readings: tuple[tuple[str, ...], ...], draw: np.random.Generator, body: bool) -> tuple[str, ...]:
    """The reading of a document this time; one draw whatever comes of it, so that the plan stays the same."""
    at = int(draw.integers(max(1, len(readings) - 1)))
    return readings[0] if body or len(readings) == 1 else readings[1 + at]

"""A checkpoint of the BERT family becomes a folder that `OnnxEncoder` opens: int8 weights, fused graph, unit vectors.

The graph is   ids, mask → transformer → mean over tokens → unit length.   Pooling lies inside the graph: it costs
nothing there, and a reader of the folder cannot pool it wrongly. Weights are int8 *per channel* (per tensor loses
about 4 MRR@10, per channel 0-1); activations are quantised anew for each text. With the same versions of torch, onnx
and onnxruntime the same checkpoint gives the same bytes.
"""

from __future__ import annotations

import json
import logging
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from metier.errors import EncoderError, MissingExtra
from metier.models.profiles import Network, folder_digest, write_profile
from metier.models.wordpiece import LONGEST_PIECE
from metier.types import Profile

OPSET = 17
"""The newest operator set that onnxruntime's BERT fusions were measured with here."""
PARTS = ("out", "up", "down")
"""A layer's three plain matrices, in the order in which the graph applies them."""


def export(checkpoint: Path, folder: Path, profile: Profile) -> Profile:
    """`folder` holds model.onnx, tokenizer.json, pieces.tsv and profile.json made from the local `checkpoint`.

    `profile.name` is a label; the returned profile's name carries a digest of what decides the vectors, so that
    vectors of two models never mix. `profile.dim` is taken from the checkpoint. Existing files are replaced at the
    end, all of them or none. Raises `MissingExtra` without torch, transformers or onnx, and `EncoderError` for a
    checkpoint that is not a BERT encoder with a fast tokenizer.
    """
    torch, transformers = _libraries()
    tokenizer = checkpoint / "tokenizer.json"
    if not tokenizer.is_file():
        raise EncoderError(f"{checkpoint}: tokenizer.json is missing; save the checkpoint with its fast tokenizer.")
    config = json.loads((checkpoint / "config.json").read_text(encoding="utf-8"))
    if config.get("model_type") != "bert":
        raise EncoderError(
            f"{checkpoint}/config.json: model_type is {config.get('model_type')!r}; "
            "only 'bert' checkpoints can be exported (use 'st:PATH' for others)."
        )
    network = Network(int(config["num_hidden_layers"]), int(config["num_attention_heads"]), config["layer_norm_eps"])
    with tempfile.TemporaryDirectory(prefix="metier-export-") as scratch:
        made = Path(scratch)
        model = transformers.AutoModel.from_pretrained(
            checkpoint, attn_implementation="eager", dtype=torch.float32, local_files_only=True
        )
        _trace(torch, model.eval(), made / "traced.onnx")
        _fuse(made / "traced.onnx", made / "fused.onnx", network, int(config["hidden_size"]))
        quantise(made / "fused.onnx", made / "model.onnx", network)
        _write_tokenizer(tokenizer, made)
        named = replace(profile, dim=int(config["hidden_size"]))
        named = replace(named, name=f"{profile.name}-{folder_digest(made, named)}")
        write_profile(made, named, network)
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("model.onnx", "tokenizer.json", "pieces.tsv", "profile.json"):
            if (made / name).exists():
                shutil.move(made / name, folder / name)
    return named


def _libraries() -> tuple[Any, Any]:
    try:
        import onnx  # noqa: F401
        import torch
        import transformers
    except ImportError as missing:
        raise MissingExtra("train", missing.name or "torch", "exporting an encoder") from missing
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    return torch, transformers


def _trace(torch: Any, model: Any, path: Path) -> None:
    """The float32 graph with mean pooling and unit length at its end."""

    class Pooled(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.bert = model

        def forward(self, ids: Any, mask: Any) -> Any:
            hidden = self.bert(input_ids=ids, attention_mask=mask, token_type_ids=torch.zeros_like(ids))[0]
            weight = mask.unsqueeze(-1).to(hidden.dtype)
            mean = (hidden * weight).sum(1) / weight.sum(1)
            return mean / mean.pow(2).sum(-1, keepdim=True).sqrt()

    ids = torch.arange(1, 15).reshape(2, 7)
    mask = torch.ones_like(ids)
    mask[1, 5:] = 0
    free = {0: "texts", 1: "tokens"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the tracer warns of every Python branch of the model's mask code
        torch.onnx.export(
            Pooled(), (ids, mask), str(path), input_names=["input_ids", "attention_mask"], output_names=["vector"],
            dynamic_axes={"input_ids": free, "attention_mask": free, "vector": {0: "texts"}},
            opset_version=OPSET, dynamo=False,
        )  # fmt: skip


def _fuse(source: Path, target: Path, network: Network, hidden: int) -> None:
    """Attention, layer norms and GELU as the single operators that onnxruntime has for them."""
    from onnxruntime.transformers import optimizer
    from onnxruntime.transformers.fusion_options import FusionOptions

    with _quiet():
        fused = optimizer.optimize_model(
            str(source), "bert", network.heads, hidden, optimization_options=FusionOptions("bert")
        )
        found = fused.get_fused_operator_statistics()
        if found["Attention"] != network.layers:
            raise EncoderError(
                f"{source}: {found['Attention']} of {network.layers} attention layers were fused; "
                "use the versions of torch, transformers and onnxruntime that tools/export_minilm.py pins."
            )
        fused.save_model_to_file(str(target))


def quantise(source: Path, target: Path, network: Network) -> None:
    """The fused float32 graph with int8 weights per channel and plain names for its tensors (`bert.py` reads them)."""
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    with _quiet():
        quantize_dynamic(
            str(source), str(target), per_channel=True, weight_type=QuantType.QInt8,
            extra_options={"DefaultTensorType": onnx.TensorProto.FLOAT},
        )  # fmt: skip
    model = onnx.load(str(target))
    names = dict(_names(model.graph))
    if missing := set(names) - {tensor.name for tensor in model.graph.initializer}:
        raise EncoderError(
            f"{source}: two weights are equal, so that the exporter merged them ({sorted(missing)[0]}); "
            "that is an untrained network: give a trained checkpoint."
        )
    _rename(model.graph, names)
    del model.metadata_props[:]
    onnx.save(model, str(target))


def _names(graph: Any) -> Iterator[tuple[str, str]]:
    """(name in the graph, plain name) of every weight, found by the operator that reads it."""
    attends = norms = ups = 0
    products: list[str] = []
    for node in graph.node:
        at = node.input
        if node.op_type == "QEmbedLayerNormalization":
            for i, plain in enumerate(("word", "position", "type", "norm.weight", "norm.bias")):
                yield at[2 + i], f"embed.{plain}"
                yield at[8 + i], f"embed.{plain}.scale"
                yield at[13 + i], f"embed.{plain}.zero"
        elif node.op_type == "QAttention":
            for i, plain in ((1, "weight"), (2, "bias"), (4, "scale"), (7, "zero")):
                yield at[i], f"{attends}.attend.{plain}"
            attends += 1
        elif node.op_type == "MatMulInteger":
            plain = f"{len(products) // 3}.{PARTS[len(products) % 3]}"
            products.append(at[1])
            yield at[1], f"{plain}.weight"
            yield at[3], f"{plain}.zero"
            yield at[1].removesuffix("_quantized") + "_scale", f"{plain}.scale"
        elif node.op_type == "SkipLayerNormalization":
            plain = f"{norms // 2}.{('out', 'down')[norms % 2]}"
            norms += 1
            yield at[2], f"{plain}.norm.weight"
            yield at[3], f"{plain}.norm.bias"
            yield at[4], f"{plain}.bias"
        elif node.op_type == "BiasGelu":
            yield at[1], f"{ups}.up.bias"
            ups += 1


def _rename(graph: Any, names: dict[str, str]) -> None:
    for tensor in graph.initializer:
        tensor.name = names.get(tensor.name, tensor.name)
    for node in graph.node:
        for i, name in enumerate(node.input):
            node.input[i] = names.get(name, name)


def _write_tokenizer(source: Path, folder: Path) -> None:
    """tokenizer.json without padding and truncation (the encoder cuts), and its pieces sorted for `wordpiece.py`."""
    spec = json.loads(source.read_text(encoding="utf-8"))
    spec["truncation"] = spec["padding"] = None
    text = json.dumps(spec, ensure_ascii=False, separators=(",", ":"))
    (folder / "tokenizer.json").write_text(text, encoding="utf-8")
    vocabulary: dict[str, int] = spec["model"]["vocab"]
    if all(len(piece) <= LONGEST_PIECE for piece in vocabulary):
        pieces = sorted((piece.encode(), number) for piece, number in vocabulary.items())
        (folder / "pieces.tsv").write_bytes(b"".join(b"%s\t%d\n" % pair for pair in pieces))


@contextmanager
def _quiet() -> Iterator[None]:
    """Onnxruntime's tools advise on the root logger; nothing of that is for the user."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)

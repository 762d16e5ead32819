"""Look-alikes and families against plain loops."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.retrieve.world import ZOO, BagEncoder, opened, skill

import metier.retrieve.clusters as clusters
from metier.errors import InputError
from metier.retrieve.index import families, look_alikes
from metier.retrieve.opened import Index
from metier.types import Skill

SKILLS = [skill(f"s{n}", f"d{n}")[0] for n in range(40)]


def world(folder: Path, seed: int = 0) -> Index:
    """40 skills whose vectors lie in eight loose groups."""
    zoo = [(made, "") for made in SKILLS]
    draw = np.random.default_rng(seed)
    centres = draw.standard_normal((8, 64))
    rows = centres[np.arange(40) % 8] + draw.uniform(0.05, 0.6, (40, 1)) * draw.standard_normal((40, 64))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return replace(opened(folder, zoo, BagEncoder()), vectors=rows.astype(np.float32))


def test_pairs_are_those_of_a_plain_double_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = world(tmp_path)
    v = index.vectors
    assert v is not None
    wanted = {(i, j) for i in range(40) for j in range(i + 1, 40) if float(v[i] @ v[j]) >= 0.9}
    assert wanted
    for cells in (clusters._CELLS, 90):
        monkeypatch.setattr(clusters, "_CELLS", cells)
        found = look_alikes(index, SKILLS, 0.9)
        assert {(i, j) for i, j, _ in found} == wanted
        assert [c for _, _, c in found] == sorted((c for _, _, c in found), reverse=True)


def test_families_are_the_connected_groups_named_by_their_smallest_id(tmp_path: Path) -> None:
    index = world(tmp_path)
    v = index.vectors
    assert v is not None
    groups = {n: {n} for n in range(40)}
    for i in range(40):
        for j in range(i):
            if float(v[i] @ v[j]) >= 0.9 and groups[i] is not groups[j]:
                joined = groups[i] | groups[j]
                for n in joined:
                    groups[n] = joined
    wanted = {
        SKILLS[n].id: min((SKILLS[m] for m in group), key=lambda made: made.id).name
        for n, group in groups.items()
        if len(group) > 1
    }
    assert families(index, SKILLS, 0.9) == wanted


def test_two_families_of_one_name_are_told_apart_by_id(tmp_path: Path) -> None:
    zoo = [(replace(made, name="same"), "") for made, _ in [skill(f"x{n}", "d") for n in range(4)]]
    index = replace(opened(tmp_path, zoo, BagEncoder()), vectors=np.eye(4, dtype=np.float32)[[0, 1, 0, 1]])
    assert set(families(index, [made for made, _ in zoo], 0.9).values()) == {"given:x0", "given:x1"}


def test_the_same_folder_twice_is_a_family_but_no_look_alike_pair(tmp_path: Path) -> None:
    twin: Skill = replace(ZOO[0][0], id="given:twin")
    zoo = [*ZOO, (twin, ZOO[0][1])]
    index = opened(tmp_path, zoo, BagEncoder())
    skills = [made for made, _ in zoo]
    assert look_alikes(index, skills, 0.99) == []
    assert set(families(index, skills, 0.99)) == {"given:pdf-tables", "given:twin"}


def test_without_vectors_nothing_looks_alike(tmp_path: Path) -> None:
    index = opened(tmp_path, ZOO, None)
    assert look_alikes(index, [made for made, _ in ZOO]) == []
    with pytest.raises(InputError, match="cosine"):
        look_alikes(index, [], 1.5)

"""Requests and libraries in the benchmarks' own forms."""

import gzip
import json
import lzma
from pathlib import Path

import pytest

from metier.errors import InputError
from metier.evaluate.datasets import as_library, read_requests


def write(path: Path, *rows: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(json.dumps(r) for r in rows) + "\n", encoding="utf-8")
    return path


def test_a_request_without_a_dataset_belongs_to_the_one_named_after_its_file(tmp_path: Path) -> None:
    path = write(tmp_path / "dev.requests.jsonl", {"id": 1, "text": "t", "gold": ["a"], "hypothetical_skills": ["h"]})
    (request,) = read_requests([path])
    assert (request.id, request.dataset, dict(request.gold), request.hypothetical) == ("1", "dev", {"a": 1.0}, ("h",))


@pytest.mark.parametrize(("suffix", "opener"), [(".gz", gzip.open), (".xz", lzma.open)])
def test_compressed_requests_are_read_as_they_are(tmp_path: Path, suffix: str, opener: object) -> None:
    path = tmp_path / f"r.jsonl{suffix}"
    with opener(path, "wt", encoding="utf-8") as file:  # type: ignore[operator]
        file.write(json.dumps({"id": "q", "text": "t", "gold": ["a"]}))
    assert read_requests([path])[0].id == "q"


def test_sra_bench_instances_are_recognised(tmp_path: Path) -> None:
    row = {"instance_id": "i1", "dataset": "champ", "question": "why?", "skill_annotations": [{"skill_id": "c1"}, "c2"]}
    path = tmp_path / "instances" / "champ.json"
    path.parent.mkdir()
    path.write_text(json.dumps([row]), encoding="utf-8")
    (request,) = read_requests([tmp_path])
    assert (request.text, set(request.gold), request.dataset) == ("why?", {"c1", "c2"}, "champ")


def test_skillrouter_core_drops_generic_tasks_and_keeps_the_core_gold(tmp_path: Path) -> None:
    write(
        tmp_path / "tasks.jsonl",
        {"task_id": "t1", "instruction_text": "do"},
        {"task_id": "t2", "instruction_text": "generic"},
        {"task_id": "t3", "instruction_text": "out", "excluded": True},
    )
    judged = {"gt_skill_ids": ["a", "b"], "core_gt_ids": ["a"], "relevance": {"a": 1}, "task_type": "core"}
    relevance = {"t1": judged, "t2": {**judged, "task_type": "generic_only"}, "t3": judged}
    (tmp_path / "relevance.json").write_text(json.dumps(relevance), encoding="utf-8")
    (request,) = read_requests([tmp_path])
    assert (request.id, set(request.gold)) == ("t1", {"a"})


def test_skillret_queries_are_read_with_their_labels(tmp_path: Path) -> None:
    (request,) = read_requests([write(tmp_path / "q.jsonl", {"id": 7, "query": "find", "skill_ids": ["s"]})])
    assert (request.text, set(request.gold)) == ("find", {"s"})


@pytest.mark.parametrize(
    ("row", "named"),
    [
        ({"id": "q", "gold": []}, "text"),
        ({"text": "t", "gold": []}, "id"),
        ({"id": "q", "text": "t"}, "gold"),
        ([1], "list"),
    ],
)
def test_a_row_that_lacks_something_is_named_with_its_line(tmp_path: Path, row: object, named: str) -> None:
    path = write(tmp_path / "r.jsonl", {"id": "ok", "text": "t", "gold": ["a"]}, row)
    with pytest.raises(InputError, match=rf"r\.jsonl:2: .*{named}"):
        read_requests([path])


def test_an_id_that_stands_twice_is_refused(tmp_path: Path) -> None:
    row = {"id": "q", "text": "t", "gold": ["a"]}
    with pytest.raises(InputError, match="'q' stands twice"):
        read_requests([write(tmp_path / "r.jsonl", row, row)])


def test_a_missing_file_says_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.jsonl: cannot be read"):
        read_requests([tmp_path / "none.jsonl"])


def test_benchmark_libraries_become_ours_with_nothing_lost(tmp_path: Path) -> None:
    corpus = [{"skill_id": "s1", "name": "n", "description": "d", "content": "body one"}]
    (tmp_path / "corpus.json").write_text(json.dumps(corpus), encoding="utf-8")
    made = as_library(tmp_path / "corpus.json", tmp_path / "out")
    assert json.loads(made.read_text(encoding="utf-8")) == {
        "id": "s1",
        "name": "n",
        "description": "d",
        "body": "body one",
    }


def test_our_own_library_is_left_as_it_is(tmp_path: Path) -> None:
    path = write(tmp_path / "skills.jsonl", {"id": "a", "name": "n", "description": "d", "body": "b"})
    assert as_library(path, tmp_path / "out") == path
    assert as_library(tmp_path, tmp_path / "out") == tmp_path


def test_skillrets_whole_skill_files_lose_their_front_matter(tmp_path: Path) -> None:
    row = {
        "id": "s1",
        "name": "n",
        "description": "d",
        "skill_md": "---\nname: n\ndescription: d\n---\n# Title\n\nText.\n",
    }
    made = as_library(write(tmp_path / "skills.jsonl", row), tmp_path / "out")
    assert json.loads(made.read_text(encoding="utf-8"))["body"].strip() == "# Title\n\nText."

"""Finding skills: where they lie, who they are, what changed, and what one bad file does (nothing to the others)."""

from __future__ import annotations

import json
import lzma
import os
from pathlib import Path

import pytest

from metier.errors import LibraryError
from metier.library.scan import Changes, Root, changes, scan
from metier.types import Library

from .shelf import put, skill_text


def names(library: Library) -> list[str]:
    return [skill.name for skill in library.skills]


def ids(library: Library) -> list[str]:
    return [skill.id for skill in library.skills]


def codes(library: Library) -> list[str]:
    return [problem.code for problem in library.problems]


def test_one_broken_file_among_500_good_ones_is_one_problem(tmp_path: Path) -> None:
    for i in range(500):
        put(tmp_path, f"skill-{i:03}")
    put(tmp_path, "broken", text=b"\x00\x01\x02\x03\xff\xfe" * 50)
    library = scan([tmp_path])
    assert len(library.skills) == 500
    [problem] = library.problems
    assert problem.code == "binary" and problem.path.endswith("broken/SKILL.md")


def test_one_file_with_a_yaml_date_does_not_empty_the_library(tmp_path: Path) -> None:  # field report 12
    put(tmp_path, "good")
    put(tmp_path, "dated", more="metadata:\n  updated: 2024-05-01\n  at: 2024-05-01 10:00:00\n")
    library = scan([tmp_path])
    assert names(library) == ["dated", "good"] and library.problems == ()


def test_skills_are_found_in_nested_and_hidden_folders(tmp_path: Path) -> None:  # field report 14
    put(tmp_path, "data/cleaning/csv-cleaning")
    put(tmp_path, ".system/hidden")
    put(tmp_path, "/".join("abcdefghijkl") + "/deep")
    for skipped in (".git", "node_modules", ".venv", "__pycache__"):
        put(tmp_path, f"{skipped}/never")
    assert sorted(ids(scan([tmp_path]))) == [
        "given:.system/hidden", "given:a/b/c/d/e/f/g/h/i/j/k/l/deep", "given:data/cleaning/csv-cleaning",
    ]  # fmt: skip


def test_a_skill_inside_a_skill_is_found_too(tmp_path: Path) -> None:
    outer = put(tmp_path, "outer")
    put(tmp_path, "outer/inner")
    (outer / "notes.md").write_text("x", encoding="utf-8")
    library = scan([tmp_path])
    assert ids(library) == ["given:outer", "given:outer/inner"]
    assert library.skills[0].resources == ("inner/SKILL.md", "notes.md")


def test_a_symlinked_skill_is_followed_once_and_keeps_both_addresses(tmp_path: Path) -> None:  # field report 14
    root, elsewhere = tmp_path / "skills", tmp_path / "elsewhere"
    real = put(root, "real")
    outside = put(elsewhere, "outside")
    (root / "alias").symlink_to(real)
    (root / "linked").symlink_to(outside)
    (root / "again").symlink_to(outside)
    library = scan([root])
    found = {skill.name: skill.addresses for skill in library.skills}
    assert found == {
        "real": (str(root / "real"), str(root / "alias")),
        "outside": (str(root / "again"), str(root / "linked")),
    }


def test_links_that_form_a_loop_end(tmp_path: Path) -> None:  # field report 14
    put(tmp_path, "a/skill")
    (tmp_path / "a" / "up").symlink_to(tmp_path)
    (tmp_path / "a" / "self").symlink_to(tmp_path / "a" / "self")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "to-c").symlink_to(tmp_path / "c")
    (tmp_path / "c").symlink_to(tmp_path / "b")
    library = scan([tmp_path])
    assert names(library) == ["skill"]
    assert sorted(codes(library)) == ["dead-link", "link-loop", "link-loop"]


def test_two_plugins_that_ship_the_same_skills_list_each_once(tmp_path: Path) -> None:  # field report 15
    for plugin in ("alpha", "beta"):
        for i in range(17):
            put(tmp_path / plugin / "skills", f"skill-{i:02}")
    roots = [Root(tmp_path / plugin / "skills", "plugin", plugin) for plugin in ("alpha", "beta")]
    library = scan(roots)
    assert len(library.skills) == 17
    assert library.skills[0].name == "alpha:skill-00" and library.skills[0].id == "plugin:alpha/skill-00"
    assert library.skills[0].addresses == tuple(str(tmp_path / p / "skills" / "skill-00") for p in ("alpha", "beta"))


def test_two_folders_with_one_name_both_stay(tmp_path: Path) -> None:  # field report 15
    put(tmp_path, "one/pdf", name="pdf", description="Forms.")
    put(tmp_path, "two/pdf", name="pdf", description="Tables.")
    library = scan([tmp_path])
    assert ids(library) == ["given:one/pdf", "given:two/pdf"] and names(library) == ["pdf", "pdf"]


def test_the_same_path_under_two_given_roots_gets_two_identities(tmp_path: Path) -> None:
    put(tmp_path / "x" / "skills", "pdf", description="Forms.")
    put(tmp_path / "y" / "skills", "pdf", description="Tables.")
    assert ids(scan([tmp_path / "x" / "skills", tmp_path / "y" / "skills"])) == ["given:pdf", "given:y/skills/pdf"]


def test_a_name_in_a_stronger_default_place_shadows_the_others(tmp_path: Path) -> None:
    roots = []
    for scope in ("project", "user", "plugin"):
        put(tmp_path / scope, "pdf", description=f"The {scope}'s.")
        put(tmp_path / scope, f"only-{scope}")
        roots.append(Root(tmp_path / scope, scope, "tools" if scope == "plugin" else None))  # type: ignore[arg-type]
    library = scan(roots)
    assert ids(library) == ["project:only-project", "project:pdf", "user:only-user", "plugin:tools/only-plugin"]
    assert [(each.skill.id, each.by) for each in library.shadowed] == [
        ("user:pdf", "project:pdf"), ("plugin:tools/pdf", "project:pdf"),
    ]  # fmt: skip
    claude = scan(roots, precedence="claude-code")
    assert [(each.skill.id, each.by) for each in claude.shadowed] == [("project:pdf", "user:pdf")]
    assert "tools:pdf" in names(claude)


def test_given_paths_never_shadow(tmp_path: Path) -> None:
    put(tmp_path / "a", "pdf", description="A.")
    put(tmp_path / "b", "pdf", description="B.")
    assert scan([Root(tmp_path / "a", "given"), Root(tmp_path / "b", "user")]).shadowed == ()


def test_a_lower_case_file_name_is_accepted_with_a_problem(tmp_path: Path) -> None:
    (tmp_path / "pdf").mkdir()
    (tmp_path / "pdf" / "skill.md").write_text(skill_text("pdf"), encoding="utf-8")
    library = scan([tmp_path])
    assert names(library) == ["pdf"] and codes(library) == ["file-name"]


def test_a_named_skill_folder_or_its_file_is_a_library_of_one(tmp_path: Path) -> None:
    folder = put(tmp_path, "pdf")
    assert ids(scan([folder])) == ids(scan([folder / "SKILL.md"])) == ["given:pdf"]


def test_an_empty_result_says_where_it_looked(tmp_path: Path) -> None:
    missing = Root(tmp_path / "nothing", "user")
    library = scan([tmp_path, missing])
    assert library.skills == () and library.looked == (str(tmp_path), str(tmp_path / "nothing"))


def test_a_missing_path_is_an_error_of_one_line_with_its_remedy(tmp_path: Path) -> None:
    with pytest.raises(LibraryError, match=r"gone: no such folder; check the path") as caught:
        scan([tmp_path / "gone"])
    assert "\n" not in str(caught.value)


def test_a_file_where_a_folder_is_expected_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x", encoding="utf-8")
    with pytest.raises(LibraryError, match=r"notes.txt: is a file, not a folder of skills; give the folder"):
        scan([tmp_path / "notes.txt"])


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_folder_that_may_not_be_read_is_an_error_or_a_problem(tmp_path: Path) -> None:
    put(tmp_path, "good")
    closed = put(tmp_path, "closed")
    closed.chmod(0)
    try:
        library = scan([tmp_path])
        assert names(library) == ["good"] and codes(library) == ["unreadable-folder"]
        with pytest.raises(LibraryError, match="cannot be read"):
            scan([closed])
    finally:
        closed.chmod(0o700)


def test_a_skill_file_that_is_no_plain_file_neither_hangs_nor_leaks(tmp_path: Path) -> None:
    put(tmp_path, "good")
    secret = tmp_path.parent / "id_rsa"
    secret.write_text("PRIVATE", encoding="utf-8")
    for name in ("pipe", "key", "dead"):
        (tmp_path / name).mkdir()
    os.mkfifo(tmp_path / "pipe" / "SKILL.md")
    (tmp_path / "key" / "SKILL.md").symlink_to(secret)
    (tmp_path / "dead" / "SKILL.md").symlink_to(tmp_path / "nowhere")
    library = scan([tmp_path])
    assert names(library) == ["good"]
    assert codes(library) == ["unreadable-file"] * 3
    assert "PRIVATE" not in str(library.problems)


def test_a_skill_file_linked_to_a_markdown_file_is_read(tmp_path: Path) -> None:
    shared = tmp_path / "shared.md"
    shared.write_text(skill_text("linked"), encoding="utf-8")
    (tmp_path / "skills" / "linked").mkdir(parents=True)
    (tmp_path / "skills" / "linked" / "SKILL.md").symlink_to(shared)
    assert names(scan([tmp_path / "skills"])) == ["linked"]


def test_files_that_the_body_names_and_the_folder_lacks_are_undeclared_needs(tmp_path: Path) -> None:
    folder = put(tmp_path, "pdf", body="Run `scripts/pull.py`, then see [the notes](references/notes.md).\n")
    (folder / "scripts").mkdir()
    (folder / "scripts" / "pull.py").write_text("x", encoding="utf-8")
    [skill] = scan([tmp_path]).skills
    assert [(need.kind, need.names, need.declared) for need in skill.requires] == [
        ("file", ("references/notes.md",), False)
    ]


# --------------------------------------------------------------------------------------------- what changed


def rescan_later(roots: list[Path], previous: Library | None = None) -> Library:
    """A scan whose stamps prove something: it looks again until none is marked as taken while its folder was written.

    The kernel dates every change itself, so nothing but time (a tenth of a second) makes a file look old.
    """
    library = scan(roots, previous=previous)
    while any("~" in skill.stamp for skill in library.skills):
        library = scan(roots, previous=library)
    return library


def test_an_unwritten_folder_is_not_read_again(tmp_path: Path) -> None:
    put(tmp_path, "pdf")
    before = rescan_later([tmp_path])
    now = scan([tmp_path], previous=before)
    assert now.skills is before.skills and now.at >= before.at
    assert changes(before, now) == Changes(unchanged=1)


def test_added_changed_and_removed_skills_are_told_apart(tmp_path: Path) -> None:
    for name in ("kept", "edited", "touched", "deleted"):
        put(tmp_path, name)
    before = rescan_later([tmp_path])
    put(tmp_path, "edited", body="Do it otherwise.\n")
    put(tmp_path, "touched")  # written again with the same bytes
    put(tmp_path, "added")
    (tmp_path / "deleted" / "SKILL.md").unlink()
    now = scan([tmp_path], previous=before)
    assert changes(before, now) == Changes(("given:added",), ("given:edited",), ("given:deleted",), 2)


def test_an_edit_that_keeps_size_and_time_is_noticed(tmp_path: Path) -> None:
    file = put(tmp_path, "pdf", body="Do it one.\n") / "SKILL.md"
    before = rescan_later([tmp_path])
    old = file.stat()
    file.write_text(file.read_text(encoding="utf-8").replace("one", "two"), encoding="utf-8")
    os.utime(file, ns=(old.st_atime_ns, old.st_mtime_ns))
    assert changes(before, scan([tmp_path], previous=before)).changed == ("given:pdf",)


def test_problems_of_unread_files_are_kept(tmp_path: Path) -> None:
    put(tmp_path, "one", name="another")
    put(tmp_path, "two")
    before = rescan_later([tmp_path])
    put(tmp_path, "two", body="New.\n")
    assert codes(scan([tmp_path], previous=before)) == codes(before) == ["name-differs-from-folder"]


def test_the_digest_covers_every_file_and_whether_it_may_run(tmp_path: Path) -> None:  # field report 25
    folder = put(tmp_path, "pdf")
    script = folder / "run.sh"
    seen = set()
    changes_ = (
        lambda: None, lambda: script.write_text("echo 1", encoding="utf-8"), lambda: script.chmod(0o755),
        lambda: script.rename(folder / "go.sh"), lambda: (folder / "link").symlink_to("/etc/passwd"),
    )  # fmt: skip
    for change in changes_:
        change()
        seen.add(scan([tmp_path]).skills[0].digest)
    assert len(seen) == 5
    for noise in ("__pycache__", ".git"):
        (folder / noise).mkdir()
        (folder / noise / "x").write_text("x", encoding="utf-8")
    assert scan([tmp_path]).skills[0].digest in seen


def test_a_copy_elsewhere_under_another_umask_has_the_same_digest(tmp_path: Path) -> None:
    one, two = put(tmp_path, "a/pdf"), put(tmp_path, "b/pdf")
    (one / "SKILL.md").chmod(0o600)
    (two / "SKILL.md").chmod(0o664)
    [skill] = scan([tmp_path]).skills
    assert skill.addresses == (str(one), str(two))
    assert len(scan([tmp_path], collapse=False).skills) == 2


def test_progress_is_told_for_every_folder(tmp_path: Path) -> None:
    for name in "abc":
        put(tmp_path, name)
    told: list[tuple[int, int]] = []
    scan([tmp_path], progress=lambda done, total: told.append((done, total)))
    assert told == [(1, 3), (2, 3), (3, 3)]


# ------------------------------------------------------------------------------------------------------- JSONL


def rows() -> list[dict[str, object]]:
    return [
        {"id": "a/one", "name": "one", "description": "First.", "body": "Do one.\n"},
        {"skill_id": "two", "name": "Two", "description": "Second.", "content": "Do two.\n", "frontmatter": None},
        {"id": "three", "frontmatter": "name: x\ndescription: Third.\nallowed-tools: Read", "body": "Do three.\n"},
    ]


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz", ".jsonl.xz"])
def test_a_jsonl_library_is_read_plain_and_compressed(tmp_path: Path, suffix: str) -> None:
    import gzip

    from metier.library.read import body

    file, spool = tmp_path / f"library{suffix}", tmp_path / "spool"
    opened = {".jsonl": open, ".jsonl.gz": gzip.open, ".jsonl.xz": lzma.open}[suffix]
    with opened(file, "wt", encoding="utf-8") as out:  # type: ignore[operator]
        out.write("".join(json.dumps(row) + "\n" for row in rows()))
    library = scan([file], spool=spool)
    assert ids(library) == ["given:a/one", "given:two", "given:three"]
    assert names(library) == ["one", "Two", "x"] and library.problems == ()
    assert library.skills[2].requires[0].names == ("Read",)
    assert library.skills[0].addresses == (f"{file}#a/one",)
    assert [body(skill, spool=spool) for skill in library.skills] == ["Do one.\n", "Do two.\n", "Do three.\n"]
    assert [body(skill) for skill in library.skills] == ["Do one.\n", "Do two.\n", "Do three.\n"]
    assert scan([file], previous=library, spool=spool).skills is library.skills
    file.unlink()
    assert body(library.skills[1], spool=spool) == "Do two.\n"


def test_bad_rows_are_problems_with_their_lines(tmp_path: Path) -> None:
    file = tmp_path / "library.jsonl"
    good = json.dumps(rows()[0])
    file.write_text(f"{good}\nnot json\n[1]\n\n{{}}\n{good}\n", encoding="utf-8")
    library = scan([file])
    assert [(p.line, p.code) for p in library.problems] == [
        (2, "bad-row"), (3, "bad-row"), (5, "bad-row"), (6, "duplicate-id"),
    ]  # fmt: skip
    assert len(library.skills) == 1 and library.skills[0].addresses == (f"{file}#a/one", f"{file}#a/one~2")


def test_a_damaged_archive_keeps_the_rows_before_the_damage(tmp_path: Path) -> None:
    file = tmp_path / "library.jsonl.xz"
    noise = "".join(chr(33 + (i * 7919) % 90) for i in range(400_000))
    many = [{"id": str(i), "name": f"n{i}", "description": "d", "body": noise[i : i + 9000]} for i in range(400)]
    whole = lzma.compress("".join(json.dumps(row) + "\n" for row in many).encode(), preset=0)
    file.write_bytes(whole[: len(whole) // 2])
    library = scan([file])
    assert library.skills and codes(library)[-1] == "damaged-file"
    file.write_bytes(b"no archive")
    with pytest.raises(LibraryError, match="cannot be read"):
        scan([file])


def test_one_row_in_two_files_is_one_document_even_in_evaluation(tmp_path: Path) -> None:
    pool, gold = tmp_path / "pool.jsonl", tmp_path / "gold.jsonl"
    pool.write_text("".join(json.dumps(row) + "\n" for row in rows()), encoding="utf-8")
    gold.write_text(json.dumps(rows()[0]) + "\n" + json.dumps({**rows()[0], "id": "b"}) + "\n", encoding="utf-8")
    assert ids(scan([pool, gold], collapse=False)) == ["given:a/one", "given:two", "given:three", "given:b"]


def test_a_mended_link_is_no_problem_any_more(tmp_path: Path) -> None:
    folder = put(tmp_path, "pdf")
    (folder / "data").symlink_to(tmp_path / "elsewhere")
    before = rescan_later([tmp_path])
    assert codes(before) == ["dead-link"]
    (tmp_path / "elsewhere").mkdir()
    assert codes(scan([tmp_path], previous=before)) == []


def test_spools_that_no_library_needs_are_swept(tmp_path: Path) -> None:
    from metier.library.rows import spooled, stamp_of, sweep

    file, spool = tmp_path / "library.jsonl", tmp_path / "spool"
    stamps = []
    for row in rows()[:2]:
        file.write_text(json.dumps(row) + "\n", encoding="utf-8")
        scan([file], spool=spool)
        stamps.append(stamp_of(str(file)))
    sweep(spool, [(str(file), stamps[1])])
    assert [spooled(spool, str(file), stamp) for stamp in stamps] == [False, True]

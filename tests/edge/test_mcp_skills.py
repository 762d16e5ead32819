"""The skills extension (SEP-2640) through the SDK's own client."""

import hashlib
from pathlib import Path
from typing import Any

import pytest

from edge.material import workshop, write_skill

anyio = pytest.importorskip("anyio")
mcp = pytest.importorskip("mcp")
import mcp_types as types  # noqa: E402
from mcp import Client, MCPError  # noqa: E402

from edge.mcp_client import MODES, ask, of_mcp, talk  # noqa: E402
from metier.assemble.workshop import Workshop  # noqa: E402
from metier.edge.mcp.server import make  # noqa: E402
from metier.edge.mcp.tools import Tools  # noqa: E402


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    monkeypatch.setenv("HOME", str(tmp_path))
    return of_mcp(workshop(tmp_path, host="mcp"))


# ---------------------------------------------------------------------------------------- the skills extension


@pytest.mark.parametrize("mode", MODES)
def test_listed_skills_carry_their_front_matter_and_digests_that_hold(shop: Workshop, mode: str) -> None:
    async def act(client: Client) -> tuple[Any, Any, dict[str, bytes]]:
        listed = await ask(client, "skills/list")
        one = await ask(client, "skills/get", uri="skill://project/pdf-forms/SKILL.md")
        files = {}
        for entry in listed["skills"]:
            for file in entry["resources"]:
                content = (await client.read_resource(file["uri"])).contents[0]
                assert isinstance(content, types.TextResourceContents)
                files[file["uri"]] = content.text.encode()
        return listed, one, files

    listed, one, files = talk(make(shop), act, mode)
    assert listed["resultType"] == one["resultType"] == "complete" and listed["cacheScope"] == "private"
    assert [e["uri"] for e in listed["skills"]] == [
        f"skill://project/{n}/SKILL.md" for n in ("git-recovery", "pdf-forms", "release-notes", "sql-tuning")
    ]
    for entry in listed["skills"]:
        for file in entry["resources"]:
            data = files[file["uri"]]
            assert file["digest"] == "sha256:" + hashlib.sha256(data).hexdigest() and file["size"] == len(data)
    assert one["skill"] in listed["skills"]
    assert [f["uri"].rpartition("/")[2] for f in one["skill"]["resources"]] == ["SKILL.md", "reference.md"]
    assert one["skill"]["frontmatter"] == {
        "name": "pdf-forms",
        "description": "Fill in PDF forms from a list of answers.",
    }


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("method", "uri"),
    [
        ("skills/get", "skill://project/none/SKILL.md"),
        ("skills/get", "skill://project/pdf-forms/reference.md"),
        ("skills/get", "file:///etc/passwd"),
        ("resources/read", "skill://project/pdf-forms/../sql-tuning/SKILL.md"),
        ("resources/read", "skill://project/pdf-forms/%2e%2e/sql-tuning/SKILL.md"),
        ("resources/read", "skill://project/pdf-forms/none.md"),
        ("resources/read", "skill://"),
        ("resources/directory/read", "skill://project/pdf-forms/SKILL.md"),
        ("resources/directory/read", "skill://project/none"),
    ],
)
def test_what_is_not_served_is_the_error_that_the_protocol_wants(
    shop: Workshop, mode: str, method: str, uri: str
) -> None:
    async def act(client: Client) -> int:
        with pytest.raises(MCPError) as caught:
            await (client.read_resource(uri) if method == "resources/read" else ask(client, method, uri=uri))
        return caught.value.code

    assert talk(make(shop), act, mode) == -32602


def test_a_folder_of_a_skill_can_be_read_one_level_at_a_time(shop: Workshop) -> None:
    sub = shop.cwd / ".claude" / "skills" / "pdf-forms" / "templates" / "eu"
    sub.mkdir(parents=True)
    (sub / "tax.md").write_text("x", encoding="utf-8")

    async def act(client: Client) -> list[Any]:
        base = "skill://project/pdf-forms"
        return [
            (await ask(client, "resources/directory/read", uri=u))["resources"] for u in (base, base + "/templates")
        ]

    top, below = talk(make(shop), act)
    assert [(r["name"], r["mimeType"]) for r in top] == [
        ("SKILL.md", "text/markdown"), ("reference.md", "text/markdown"), ("templates", "inode/directory")
    ]  # fmt: skip
    assert [r["uri"] for r in below] == ["skill://project/pdf-forms/templates/eu"]


def test_skills_that_the_standard_does_not_let_be_served_are_left_to_the_tools(shop: Workshop) -> None:
    skills = shop.cwd / ".claude" / "skills"
    for folder, text in {
        "no-front": "just text", "bad": "---\nname: Bad Name\ndescription: x\n---\nb",
        "none": "---\nname: none\n---\nb",
        "bomb": "---\nname: bomb\ndescription: x\na: &a [1,1,1,1,1,1,1,1,1]\n" + "".join(
            f"{chr(98 + n)}: &{chr(98 + n)} [{','.join(['*' + chr(97 + n)] * 9)}]\n" for n in range(8)) + "---\nb",
    }.items():  # fmt: skip
        (skills / folder).mkdir()
        (skills / folder / "SKILL.md").write_text(text, encoding="utf-8")
    write_skill(skills, "dated", "x", "b", "metadata:\n  reviewed: 2026-01-02\n")
    Workshop(shop.config, cwd=shop.cwd).refresh()

    async def act(client: Client) -> list[Any]:
        return list((await ask(client, "skills/list"))["skills"])

    served = {e["frontmatter"]["name"]: e for e in talk(make(shop), act)}
    assert {"no-front", "bad", "none", "bomb"}.isdisjoint(served)
    assert served["dated"]["frontmatter"]["metadata"] == {"reviewed": "2026-01-02"}
    assert Tools(shop).call("load_skill", {"skill": "none"}).error is False


def test_of_a_large_library_the_skills_found_lately_are_listed_page_by_page(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("metier.edge.mcp.skills.LISTED", 2)
    monkeypatch.setattr("metier.edge.mcp.skills.PAGE", 2)

    async def act(client: Client) -> list[Any]:
        before = await ask(client, "skills/list")
        await client.call_tool("find_skills", {"task": "why is this query slow", "limit": 3})
        first = await ask(client, "skills/list")
        second = await ask(client, "skills/list", cursor=first["nextCursor"])
        return [before, first, second]

    before, first, second = talk(make(shop), act)
    assert before["skills"] == [] and "nextCursor" not in before
    assert first["skills"][0]["frontmatter"]["name"] == "sql-tuning"
    assert len(first["skills"]) == 2 and len(second["skills"]) == 1 and "nextCursor" not in second

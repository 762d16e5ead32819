"""The files that a body names (methods 4.3)."""

from __future__ import annotations

import pytest

from metier.library.mentions import mentioned, missing


@pytest.mark.parametrize(
    ("body", "paths"),
    [
        ("See [notes](references/notes.md#top) and [more](./MORE.md 'title').", ("references/notes.md", "MORE.md")),
        ("Run `python scripts/pull.py --all` first.", ("scripts/pull.py",)),
        ("```bash\npython {baseDir}/scripts/pull.py\n```\n", ("scripts/pull.py",)),
        ("${CLAUDE_SKILL_DIR}/scripts/run.sh", ("scripts/run.sh",)),
        ("scripts/a.py scripts/a.py", ("scripts/a.py",)),
        ("[site](https://x.org/a.md) [root](/etc/a.md) [up](../b.md) [anchor](#x) [mail](mailto:a@b.md)", ()),
        ("`src/main.py` and `package.json` are the project's own", ()),
        ("scripts/*.py, scripts/<name>.py, scripts/$X.py, path/to/scripts/x.py, scripts/your-script.py", ()),
        ("```md\n[example](docs/example-link.md)\n```", ()),
        ("~/.claude/skills/x/scripts/a.py", ()),
    ],
)
def test_files_of_the_skills_own_folder_are_found(body: str, paths: tuple[str, ...]) -> None:
    assert mentioned(body) == paths


def test_what_the_folder_holds_is_not_missing() -> None:
    body = "[a](references/a.md) [b](references/b.md) [all](references/sub.md)"
    assert missing(body, ("references/a.md", "references/sub.md/x")) == ("references/b.md",)

"""Small real skills in a small real project, for everything that agents touch."""

import re
from pathlib import Path

from metier.assemble.settings import load
from metier.assemble.workshop import Workshop

SKILLS = {
    "pdf-forms": ("Fill in PDF forms from a list of answers.", "Fill the form fields one by one."),
    "sql-tuning": ("Find out why a PostgreSQL query is slow.", "Run EXPLAIN ANALYZE and read the plan."),
    "release-notes": ("Write release notes from the commits between two tags.", "List the commits, group them, write."),
    "git-recovery": ("Get lost commits and branches back in git.", "Look at the reflog before anything else."),
}  # fmt: skip


def write_skill(folder: Path, name: str, about: str, body: str, front: str = "") -> Path:
    """A folder with a SKILL.md."""
    (folder / name).mkdir(parents=True, exist_ok=True)
    text = f"---\nname: {name}\ndescription: {about}\n{front}---\n\n# {name}\n\n{body}\n"
    (folder / name / "SKILL.md").write_text(text, encoding="utf-8")
    return folder / name


def project(at: Path) -> Path:
    """A project with four skills, of which `pdf-forms` has a reference."""
    (at / ".git").mkdir(parents=True)
    for name, (about, body) in SKILLS.items():
        write_skill(at / ".claude" / "skills", name, about, body)
    (at / ".claude" / "skills" / "pdf-forms" / "reference.md").write_text("Field types: text, box.\n", encoding="utf-8")
    return at


def workshop(at: Path, *, built: bool = True, **settings: object) -> Workshop:
    """A workshop over `at/project` with its home in `at/home`; `hash` needs no model."""
    cwd = at / "project" if (at / "project").exists() else project(at / "project")
    flags = {"home": str(at / "home"), "encoder": "hash", "host": "claude-code", "rescan": 86400, **settings}
    config, _ = load(flags=flags, env={}, cwd=cwd)
    shop = Workshop(config, cwd=cwd)
    if built:
        shop.refresh()
    return shop


def settled(text: str, at: Path) -> str:
    """The text without what differs between two runs: ids, marks, and where the project lies."""
    text = re.sub(r"r_[0-9a-f]{16}", "r_0000000000000000", text.replace(str(at), "…"))
    return re.sub(
        r"<<<skill [0-9a-f]{8}|[0-9a-f]{8} end of skill", lambda m: re.sub("[0-9a-f]{8}", "00000000", m[0]), text
    )

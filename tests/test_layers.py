"""Who may import whom, and how long a module may be (design: the levels). Reads the source; imports nothing of it."""

import ast
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "metier"
LEVEL = {
    "types": 0, "errors": 0, "text": 0, "late": 0, "hashing": 0,
    "store": 1,
    "library": 2, "models": 2, "retrieve": 2, "rerank": 2, "gate": 2, "disclose": 2,
    "router": 3, "assemble": 4, "evaluate": 5, "edge": 6,
    "__init__": 7,
}  # fmt: skip
ALLOWED_AT_0 = {("types", "text"), ("types", "late"), ("text", "late"), ("text", "hashing")}
LONGEST = 400


def modules() -> list[tuple[Path, tuple[str, ...]]]:
    return [(p, p.relative_to(SOURCE).with_suffix("").parts) for p in sorted(SOURCE.rglob("*.py"))]


def imports(path: Path, parts: tuple[str, ...]) -> set[tuple[str, ...]]:
    """Every metier module named by an import, relative ones resolved, as parts below the package."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [a.name for a in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                here = ("metier", *parts[: len(parts) - node.level])
                base = ".".join((*here, base)) if base else ".".join(here)
            names = [f"{base}.{a.name}" for a in node.names]
        else:
            continue
        found |= {tuple(n.split(".")[1:]) for n in names if n.split(".")[0] == "metier" and n != "metier"}
    return found


def allowed(parts: tuple[str, ...], target: tuple[str, ...]) -> bool:
    mine, other = parts[0], target[0]
    if mine == "__init__" or (other == mine and mine != "edge"):
        return True
    if mine == other == "edge":
        return target[1:2] == ("wire",) or parts[1] == "cli" or target[1:2] == parts[1:2]
    if LEVEL[mine] == LEVEL[other] == 0:
        return (mine, other) in ALLOWED_AT_0
    if LEVEL[mine] == 3:
        return LEVEL[other] <= 1
    return LEVEL[other] < LEVEL[mine]


def test_every_import_goes_down_the_levels_and_siblings_never_meet() -> None:
    wrong = []
    for path, parts in modules():
        assert parts[0] in LEVEL, f"unknown part: {'/'.join(parts)}"
        for target in imports(path, parts):
            unknown = target[0] not in LEVEL and not (SOURCE / "__init__.py").read_text().count(target[0])
            if unknown or (target[0] in LEVEL and not allowed(parts, target)):
                wrong.append(f"{'/'.join(parts)} imports {'.'.join(target)}")
    assert wrong == []


def test_only_assemble_imports_every_stage() -> None:
    stages = {"retrieve", "rerank", "gate", "disclose"}
    who = {parts for path, parts in modules() if stages <= {t[0] for t in imports(path, parts)}}
    assert {p[0] for p in who} <= {"assemble"} and len(who) == 1


def test_no_module_passes_400_lines() -> None:
    lengths = {"/".join(parts): len(path.read_text(encoding="utf-8").splitlines()) for path, parts in modules()}
    assert {name: n for name, n in lengths.items() if n > LONGEST} == {}

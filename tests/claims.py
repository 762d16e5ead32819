"""Which test holds which numbered rule: every package's `claims.py` merged, to be checked both ways.

`CLAIMS` maps the number of a rule in `docs/how-it-works/` to the tests that would fail if it stopped holding.
"""

import importlib.util
from pathlib import Path

HERE = Path(__file__).parent


def merged() -> dict[str, list[str]]:
    """Rule number → test node ids, from every `tests/*/claims.py`."""
    claims: dict[str, list[str]] = {}
    for path in sorted(HERE.glob("*/claims.py")):
        spec = importlib.util.spec_from_file_location(f"claims_of_{path.parent.name}", path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        for rule, tests in module.CLAIMS.items():
            claims.setdefault(rule, []).extend(tests)
    return claims

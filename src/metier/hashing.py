"""sha256 and blake2b without OpenSSL, whose loading takes 2 of a cold route's 110 ms; where it is loaded, its sha256.

These are the interpreter's own implementations, which `hashlib` itself falls back to (and always uses for blake2b).
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hashlib import blake2b as blake2b
    from hashlib import sha256 as sha256
else:
    try:
        from _blake2 import blake2b
    except ImportError:
        from hashlib import blake2b

    try:
        from _sha2 import sha256 as _own  # since Python 3.12
    except ImportError:
        try:
            from _sha256 import sha256 as _own
        except ImportError:
            from hashlib import sha256 as _own

    def sha256(data=b""):
        """A sha256 object over `data`, as `hashlib.sha256` makes one."""
        loaded = sys.modules.get("hashlib")
        return (loaded.sha256 if loaded is not None else _own)(data)


__all__ = ["blake2b", "sha256"]

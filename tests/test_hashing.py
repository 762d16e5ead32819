"""The light hashes against `hashlib`."""

import hashlib
import subprocess
import sys

from hypothesis import given
from hypothesis import strategies as st

from metier.hashing import _own as own  # type: ignore[attr-defined]
from metier.hashing import blake2b, sha256


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_the_light_hashes_are_those_of_hashlib(one: bytes, other: bytes) -> None:
    for light in (sha256, own):
        found = light(one)
        found.update(other)
        assert found.hexdigest() == hashlib.sha256(one + other).hexdigest()
    assert blake2b(one, digest_size=8).digest() == hashlib.blake2b(one, digest_size=8).digest()


def test_a_fingerprint_is_taken_without_loading_openssl() -> None:
    code = "import sys, metier.text\nmetier.text.fingerprint('a')\nprint('_hashlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"

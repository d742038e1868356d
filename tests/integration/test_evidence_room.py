"""The room evidence against the same computations in Python: trees and proofs by the recursive definitions of
RFC 6962, section 2.1, and notes by the specification and the package cryptography."""

import base64
import hashlib
import subprocess

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from kafka_rig import BUILD

DRIVER = BUILD / "tests" / "evidence_driver"


def node(left, right):
    return hashlib.sha256(b"\1" + left + right).digest()


def split(count):
    return 1 << (count - 1).bit_length() - 1


def root_of(leaves):
    if not leaves:
        return hashlib.sha256(b"").digest()
    if len(leaves) == 1:
        return hashlib.sha256(b"\0" + leaves[0]).digest()
    half = split(len(leaves))
    return node(root_of(leaves[:half]), root_of(leaves[half:]))


def path(index, leaves):
    if len(leaves) == 1:
        return []
    half = split(len(leaves))
    if index < half:
        return [*path(index, leaves[:half]), root_of(leaves[half:])]
    return [*path(index - half, leaves[half:]), root_of(leaves[:half])]


def subproof(old, leaves, is_whole):
    if old == len(leaves):
        return [] if is_whole else [root_of(leaves)]
    half = split(len(leaves))
    if old <= half:
        return [*subproof(old, leaves[:half], is_whole), root_of(leaves[half:])]
    return [*subproof(old - half, leaves[half:], False), root_of(leaves[:half])]


@pytest.mark.parametrize("size", [0, 1, 2, 3, 7, 8, 9, 64, 100, 129])
def test_roots_and_proofs_are_those_of_the_definition(size):
    leaves = [f"leaf {i}".encode() for i in range(size)]
    expected = [["root", 0, size, root_of(leaves)]]
    expected += [["inclusion", i, size, *path(i, leaves)] for i in range(size)]
    expected += [["consistency", old, size, *(subproof(old, leaves, True) if old else [])] for old in range(size + 1)]
    lines = [" ".join(part.hex() if isinstance(part, bytes) else str(part) for part in line) for line in expected]
    got = subprocess.run([DRIVER, str(size)], check=True, capture_output=True, text=True).stdout
    assert got.splitlines() == lines


TEXT = "writ/engine-1/0\n17\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n"


def test_a_signed_note_is_that_of_another_library():
    key = Ed25519PrivateKey.from_private_bytes(bytes([42] * 32))
    public = key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    for name in ("writ/engine-1/0", "name-ä/2"):
        key_id = hashlib.sha256(name.encode() + b"\n\1" + public).digest()[:4]
        line = base64.b64encode(key_id + key.sign(TEXT.encode())).decode()
        note = f"{TEXT}\n— {name} {line}\n"
        got = subprocess.run([DRIVER, "sign", name], input=TEXT.encode(), check=True, capture_output=True).stdout
        assert got.decode() == note

        def verdict(note, vkey=f"{name}+{key_id.hex()}+{base64.b64encode(bytes([1]) + public).decode()}"):
            return subprocess.run([DRIVER, "verify", vkey], input=note.encode(), capture_output=True, text=False).stdout.decode().strip()

        assert verdict(note) == "signed"
        assert verdict(note.replace("\n17\n", "\n18\n")) == "forged"
        assert verdict(note.replace(f"— {name}", "— other")) == "unsigned"

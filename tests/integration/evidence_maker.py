"""Streams with signed histories, as an engine would write them: made here by the specification alone (schemas/evidence.md)."""

import base64
import hashlib
import hmac
import json
import os
import pathlib
import sys
import time
from urllib.parse import quote

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

import harness

sys.path.insert(0, str(pathlib.Path(harness.__file__).parent))
import canonical  # noqa: E402

MADE_MS = 1_795_000_000_000
BATCH = 2000  # records of one request


def sha(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


def b64(data):
    return base64.b64encode(data).decode()


class Key:
    def __init__(self, seed):
        self.secret = Ed25519PrivateKey.from_private_bytes(sha(seed.encode()))
        self.public = self.secret.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)

    def note(self, text, name):
        key_id = sha(name.encode(), b"\n\1", self.public)[:4]
        return f"{text}\n— {name} {b64(key_id + self.secret.sign(text.encode()))}\n"


class Frontier:
    def __init__(self):
        self.size, self.roots = 0, []

    def append(self, leaf):
        size = self.size
        while size & 1:
            leaf, size = sha(b"\1", self.roots.pop(), leaf), size >> 1
        self.roots.append(leaf)
        self.size += 1

    def root(self):
        root = self.roots[-1] if self.roots else sha()
        for left in reversed(self.roots[:-1]):
            root = sha(b"\1", left, root)
        return root

    def text(self):
        return b64(self.size.to_bytes(8, "little") + b"".join(self.roots))


def moment(ms):
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(ms // 1000)) + f".{ms % 1000:03}Z"


def decision(node, seq, version=0):
    event = {"event_id": f"{node}.{seq}" + (f".{version}" if version else ""), "kind": "decision", "tenant_id": "default", "timestamp": moment(MADE_MS + seq * 1000),
             "actor": f"bot-{seq % 7}", "user_id": "eve", "action": f"get_{seq % 3}", "args": {"n": seq}, "decision": "deny" if seq % 2 else "allow",
             "mode": "live", "reason": f"reason {version}", "rule": "base:reads", "trace_id": f"{node}-{seq}", "resource": {"id": f"r{seq}", "type": "doc"},
             "input_hash": sha(f"{node} {seq}".encode()).hex(), "policy_digest": sha(b"policy").hex(), "policy_name": "base", "policy_version": 1}
    return sealed(event)


def plain(value):
    """The canonical text of a value that has ASCII and small integers only. json is ten times faster than canonical.py."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def sealed(event):
    return plain({**event, "output_hash": sha(plain(canonical.outcome(event)).encode()).hex()})


class History:
    """The records of one stream, and their checkpoints, one for each `run` of them."""

    def __init__(self, node, count, run=100, key=None, versions=None):
        self.node, self.key, self.epoch, self.run = node, key or Key(node), sha(node.encode())[:8].hex(), run
        versions = versions or (lambda seq: 0)
        start = plain({"event_id": f"{node}.1", "kind": "engine.started", "tenant_id": "default", "timestamp": moment(MADE_MS),
                                     "previous": {"epoch": "", "seq": 0}, "trace_id": f"{node}-1"})
        self.lines = [start, *(decision(node, seq, versions(seq)) for seq in range(2, count + 1))]
        assert self.lines[1] == canonical.canonical(json.loads(self.lines[1]))
        self.checkpoints = []
        self.sign()

    def sign(self, key=None):
        self.checkpoints, tree, before, start = [], Frontier(), Frontier().text(), 1
        for seq, line in enumerate(self.lines, 1):
            tree.append(sha(b"\0", line.encode()))
            if seq % self.run == 0 or seq == len(self.lines):
                self.checkpoints.append((1, seq, start, before, self.checkpoint(tree, key or self.key)))
                start, before = seq + 1, tree.text()

    def checkpoint(self, tree, key):
        name = f"writ/{quote(self.node, safe='')}/0/1"
        return key.note(f"{name}\n{tree.size}\n{b64(tree.root())}\n", name)

    def frontier(self, end):
        tree = Frontier()
        for line in self.lines[:end]:
            tree.append(sha(b"\0", line.encode()))
        return tree.text()


def registered(pepper, node, journal, public):
    """The MAC of a registered key."""
    key = canonical.derived_key(pepper, "writ registered keys of engines 1")
    return hmac.new(key, f"{node}\0{journal}\0".encode() + b64(public).encode(), hashlib.sha256).hexdigest()


def run_mac(pepper, node, epoch, first, lines):
    key = hmac.new(canonical.derived_key(pepper, "writ records of engines 1"), node.encode() + b"\0" + b"0", hashlib.sha256).digest()
    text = epoch.encode() + first.to_bytes(8, "big") + len(lines).to_bytes(8, "big") + b"".join(sha(b"\0", line.encode()) for line in lines)
    return hmac.new(key, text + bytes(8) + b"\n", hashlib.sha256).hexdigest()


def quoted(value):
    return str(value) if isinstance(value, int) else "'" + value.replace("'", "''") + "'"


def insert(table, columns, rows):
    return f"INSERT INTO {table} ({columns}) VALUES " + ", ".join("(" + ", ".join(map(quoted, row)) + ")" for row in rows) + ";\n" if rows else ""


def checkpoint_rows(node, checkpoints):
    return insert("checkpoints", "node, journal, base, end_seq, from_seq, frontier, note, created_at", [(node, "0", *one, MADE_MS) for one in checkpoints])


class One:
    """What found_by_writ() and export() of test_tampering need of a stack."""

    def __init__(self, stack):
        self.stack = stack


class Evidence:
    """A platform's store with histories in it. `sql` runs statements in it as somebody with write access would."""

    def __init__(self, stack, sql):
        self.stack, self.sql, self.pepper = stack, sql, (stack.data / "pepper").read_text()
        self.platform_key = Key("platform")
        self.keys = ""

    def register(self, node, public, mac=None):
        journal = "0" if node else ""
        return insert("engine_keys", "node, journal, public_key, created_at, created_by, mac",
                      [(node, journal, b64(public), MADE_MS, "root", mac or registered(self.pepper, node, journal, public))])

    def store(self, history):
        with self.stack.at_platform("engine") as wire:
            for at in range(0, len(history.lines), BATCH):
                lines = history.lines[at:at + BATCH]
                reply = wire.post("/api/v1/audit/ingest", "".join(line + "\n" for line in lines), headers={
                    "Content-Type": "application/x-ndjson", "Writ-Node": history.node, "Writ-Journal": "0", "Writ-Epoch": history.epoch,
                    "Writ-First-Seq": str(at + 1), "Writ-Mac": run_mac(self.pepper, history.node, history.epoch, at + 1, lines)})
                assert reply.status == 201, reply
        return self.register(history.node, history.key.public) + checkpoint_rows(history.node, history.checkpoints)

    def removal(self, node, kind, first, last, log_id, key=None, tree=None):
        name = f"writ/{quote(node, safe='')}/0"
        text = f"{name}\n{kind}\n{first} {last}\n{moment(MADE_MS)}\n" + (f"1 {tree}\n" if tree else "")
        note = (key or self.platform_key).note(text, f"writ/platform/{log_id}")
        return insert("removals", "number, node, journal, from_seq, end_seq, note, created_at",
                      [(int.from_bytes(os.urandom(5), "big"), node, "0", first, last, note, MADE_MS)])

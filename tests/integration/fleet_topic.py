"""The fleet's log, read from the brokers' own files and replayed by rules written a second time.

Nothing of the engine, of librdkafka or of a running broker is used: record batches of Kafka (magic 2, not compressed) are read
from a segment file; entries are as src/fleet/entry.h describes them; what counts is as docs/internals/decisions/036 has it.
The state is taken from the public events of the records, not from the deltas that engines apply.
"""

import hashlib
import hmac
import json
import pathlib
import struct

TERM, RECORDS, HEARTBEAT = 1, 2, 3
HEADER = struct.Struct("<8sHBBI16sQQ32s16sQQHI")


class Broken(AssertionError):
    """The log is not what engines may have written."""


# ---- the broker's file ----


def _varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return (value >> 1) ^ -(value & 1), at


def messages(folder):
    """[(offset, the broker's time in ms, bytes)] of all segments of a partition, up to a torn end."""
    found = []
    for path in sorted(pathlib.Path(folder).glob("*.log")):
        data, at = path.read_bytes(), 0
        while at + 61 <= len(data):
            base, length, _, magic, _, attributes, _, first_ms, max_ms = struct.unpack_from(">qiibIhiqq", data, at)
            if length <= 0 or at + 12 + length > len(data):
                break
            if magic != 2 or attributes & 7:
                raise Broken(f"a batch at offset {base} has magic {magic} and attributes {attributes}")
            count = struct.unpack_from(">i", data, at + 57)[0]
            place = at + 61
            for _ in range(0 if attributes & 32 else count):  # control batches are Kafka's own
                size, place = _varint(data, place)
                end = place + size
                delta_ms, inside = _varint(data, place + 1)
                delta, inside = _varint(data, inside)
                key, inside = _varint(data, inside)
                inside += max(key, 0)
                value, inside = _varint(data, inside)
                found.append((base + delta, max_ms if attributes & 8 else first_ms + delta_ms, data[inside:inside + max(value, 0)]))
                place = end
            at += 12 + length
    return found


# ---- entries ----


class Entry:
    def __init__(self, offset, append_ms, data, key):
        self.offset, self.append_ms = offset, append_ms
        if len(data) < HEADER.size + 32:
            raise Broken(f"offset {offset}: {len(data)} bytes are no entry")
        (magic, form, self.kind, self.flags, self.fingerprint, self.fleet, self.term, self.n, self.previous, self.incarnation, self.time_ms,
         self.seq, node, body) = HEADER.unpack_from(data)
        if magic != b"writFLT1" or form != 1 or HEADER.size + node + body + 32 != len(data):
            raise Broken(f"offset {offset}: no entry of format 1")
        if key is not None and not hmac.compare_digest(hmac.digest(key, data[:-32], "sha256"), data[-32:]):
            raise Broken(f"offset {offset}: forged")
        self.digest = hashlib.sha256(data).digest()
        self.node = data[HEADER.size:HEADER.size + node].decode()
        self.body = data[HEADER.size + node:-32]
        self.records, self.before = [], None
        if self.kind == RECORDS:
            self._read_records()
        if self.kind == HEARTBEAT:
            self.number, self.nonce, self.applied, _, self.lease_ms = struct.unpack_from("<QQQQI", self.body)
            self.closed, self.works, self.reaches = (bool(self.flags & bit) for bit in (1, 2, 4))

    def _read_records(self):
        at = 0
        if self.n == 1:
            self.before = struct.unpack_from("<QQ32s", self.body)
            at = 48
        while at < len(self.body):
            public, private = struct.unpack_from("<II", self.body, at)
            at += 8
            text = self.body[at:at + public]
            at += public + private
            self.records.append(json.loads(text) if text else None)


def mac_key(pepper, name, fleet):
    """HKDF-SHA-256 of the pepper, for entries of this fleet."""
    extracted = hmac.digest(b"", pepper, "sha256")
    return hmac.digest(extracted, b"writ fleet entry\0" + fleet + name.encode() + b"\1", "sha256")


def read_pepper(path):
    return bytes.fromhex(pathlib.Path(path).read_text().strip())


# ---- replay ----


class Replay:
    """What counts of a log: `events` in their order, each with the offset and the term of its entry."""

    def __init__(self, log, pepper, name):
        self.events, self.terms, self.stale, self.counted, self.heartbeats = [], [], 0, 0, 0
        self.last, self.before, self.leader, self.time_ms, self.seq = (0, 0, bytes(32)), None, None, 0, None
        key = fleet = None
        for expected, (offset, append_ms, data) in enumerate(log):
            if offset != expected:
                raise Broken(f"offset {offset} follows {expected - 1}")
            if key is None:
                fleet = data[16:32]
                key = mac_key(pepper, name, fleet)
            entry = Entry(offset, append_ms, data, key)
            if entry.fleet != fleet:
                raise Broken(f"offset {offset}: another fleet")
            self._step(entry)

    def _count(self, entry):
        self.last = (entry.term, entry.n, entry.digest)
        self.counted += 1
        if entry.time_ms < self.time_ms:
            raise Broken(f"offset {entry.offset}: its time is before that of an earlier entry")
        self.time_ms = entry.time_ms

    def _step(self, entry):
        if entry.kind == HEARTBEAT:
            self.heartbeats += 1
            if entry.applied > entry.offset:
                raise Broken(f"offset {entry.offset}: its sender has applied {entry.applied}")
        elif entry.kind == TERM:
            if entry.term <= self.last[0]:
                self.stale += 1
                return
            self.before, self.leader = self.last, entry.incarnation
            self._count(entry)
            self.terms.append((entry.term, entry.node, entry.offset, entry.append_ms))
        elif entry.term < self.last[0] or (entry.term == self.last[0] and entry.n <= self.last[1]):
            self.stale += 1
        else:
            self._take_records(entry)

    def _take_records(self, entry):
        if entry.term != self.last[0] or entry.n != self.last[1] + 1 or entry.previous != self.last[2] or entry.incarnation != self.leader:
            raise Broken(f"offset {entry.offset}: it does not follow the entry before it")
        if entry.n == 1 and entry.before != self.before:
            raise Broken(f"offset {entry.offset}: its leader has read another history")
        if self.seq is not None and entry.seq != self.seq:
            raise Broken(f"offset {entry.offset}: its first record is {entry.seq}, expected {self.seq}")
        self._count(entry)
        self.seq = entry.seq + len(entry.records)
        for record in entry.records:
            if record is not None:
                self.events.append({**record, "at_offset": entry.offset, "of_term": entry.term})


def same_log(logs):
    """The longest of the brokers' logs, of which every other one is a beginning."""
    longest = max(logs, key=len)
    for log in logs:
        for mine, its in zip(log, longest):
            if mine != its:
                raise Broken(f"brokers differ at offset {mine[0]}")
    return longest


def replay_of(net):
    """Of a fleet in tests/integration/fleet_net.py."""
    logs = [messages(broker.log_folder(net.topic)) for broker in net.brokers]
    return Replay(same_log(logs), read_pepper(net.data / "pepper"), net.name)

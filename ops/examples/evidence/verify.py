#!/usr/bin/env python3
"""Verifies an evidence file of writ without any code of writ: schemas/evidence.md is all that it follows.

  verify.py EVIDENCE [--keys FILE] [--anchors PATH] [--witness KEY]   every record against the signed checkpoints
  verify.py FOLDER [--keys FILE] [--anchors PATH] [--witness KEY]     the same of a folder (`writ evidence export`), and all else that is in it
  verify.py --proof PROOF [--keys FILE]                               one record (`writ audit prove`)

FILE of --keys has the lines `key` that the auditor got from another source; without it the file's own lines count, as far as the
platform had registered the keys. PATH of --anchors has checkpoints that were kept outside of the store: the file of an anchor, a folder with
the objects of a bucket, or an earlier evidence file. KEY of --witness is the verifier key of a witness (C2SP), which must have signed a
checkpoint of each stream; once for each witness. Exit status: 0 proved, 1 something is wrong.
"""
import argparse
import base64
import datetime
import hashlib
import json
import pathlib
import sys
from urllib.parse import quote, unquote

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

OUTCOME = set("action actor decision expires_at input_hash key_id kind mode policy_digest reason request_id review_id rule safe_args safe_tool"
              " tenant_id timestamp trace_id user_id".split())
scan = json.JSONDecoder().raw_decode


def sha(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


def stream_name(node, journal):
    return f"writ/{quote(node, safe='')}/{quote(journal, safe='')}"


class Tree:
    """RFC 6962: the roots of the complete subtrees of the leaves before record `start`, the largest first."""

    def __init__(self, base, start, frontier=bytes(8)):
        self.base, self.start, self.size = base, start, int.from_bytes(frontier[:8], "little")
        self.roots = [frontier[at:at + 32] for at in range(8, len(frontier), 32)]
        if len(self.roots) != bin(self.size).count("1") or len(frontier) % 32 != 8 or self.size != start - base:
            raise ValueError("frontier")

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


def signed_text(note, name, keys):
    """The text of a signed note, if one of the keys signed it under this name; else ValueError."""
    text, _, lines = note.rpartition("\n\n")
    for dash, signer, digits in (line.split(" ") for line in lines.splitlines()):
        raw = base64.b64decode(digits)
        for key in keys if (dash, signer) == ("—", name) else ():
            if raw[:4] == sha(name.encode(), b"\n\1", key)[:4]:
                try:
                    Ed25519PublicKey.from_public_bytes(key).verify(raw[4:], f"{text}\n".encode())
                    return text
                except InvalidSignature:
                    pass
    raise ValueError("no key signed it")


def witness_time(note, witness):
    """When the witness signed the note (C2SP tlog-cosignature), in seconds; 0: it did not. InvalidSignature: a signature names it, and is another's."""
    (name, _, digits), (text, _, lines), time = witness.split("+", 2), note.rpartition("\n\n"), 0
    key = base64.b64decode(digits)
    for _, signer, digits in (line.split(" ") for line in lines.splitlines()):
        raw = base64.b64decode(digits)
        if signer == name and raw[:4] == sha(name.encode(), b"\n", key)[:4]:
            at = int.from_bytes(raw[4:12], "big")
            Ed25519PublicKey.from_public_bytes(key[1:]).verify(raw[12:], f"cosignature/v1\ntime {at}\n{text}\n".encode())
            time = max(time, at)
    return time


def read_event(text):
    """The members of a canonical object, and whether output_hash is that of those which it covers."""
    event, covered, at = {}, [], 1
    while text[at] != "}":
        name, colon = scan(text, at)
        event[name], end = scan(text, colon + 1)
        if name in OUTCOME:
            covered.append(text[at:end])
        at = end + (text[end] == ",")
    digest = hashlib.sha256(("{" + ",".join(covered) + "}").encode()).hexdigest()
    return event, text[0] == "{" and at == len(text) - 1 and event.get("output_hash", digest) == digest


class Stream:
    """The lines of one stream. When all are read, finish() walks over its records."""

    def __init__(self, run, node, journal):
        self.run, self.where, self.name = run, f"{node}/{journal}", stream_name(node, journal)
        self.keys = run.keys.get((node, journal), [])  # (public key, the record from which on it counts no longer)
        self.first, self.last = 1, 0  # of the records that the file has; last 0: to the end
        self.leaves, self.times, self.traces, self.before = {}, {}, {}, (0, None)  # by seq; seq and epoch of the record before
        self.marks, self.bases, self.anchor_times = {}, [], {}  # {end: {(is_anchor, base, root): Tree, or None of an anchor}}
        self.removals, self.holes, self.number = [], [], 0
        self.notes, self.witness_times, self.witnessed = [], {}, {}  # by (end, base, root): {witness: time}; by witness: (end, time)
        self.tree = self.other = self.anchored = None  # `other`: the history that a later checkpoint goes on from, if it is not this one
        self.good_from = self.good = self.covered = self.refuted = self.unread = 0  # good: the last record that is proved
        for mark in run.anchors.pop(self.name, ()):
            self.add_checkpoint(mark, True)

    def find(self, kind, first, last):
        self.run.find(kind, self.where, first, last, [trace for seq, trace in self.traces.items() if first <= seq <= last and trace])

    def add_line(self, kind, line, raw):
        if kind == "range":
            self.first, self.last = line["from_seq"], line["end_seq"]
        elif kind == "removal":
            self.add_removal(line)
        elif kind == "checkpoint":
            self.add_checkpoint(line)
        elif kind == "quarantined":
            self.leaves.setdefault(line["seq"], sha(b"\0", base64.b64decode(line["bytes"])))
        elif kind == "record":
            self.add_record(line, raw)

    def add_checkpoint(self, line, is_anchor=False):
        try:
            name, size, root = line["note"].partition("\n\n")[0].split("\n")
            base = int(name.removeprefix(self.name + "/"))
            end, root, tree = base + int(size) - 1, base64.b64decode(root), None
            signed_text(line["note"], f"{self.name}/{base}", [key for key, distrusted_from in self.keys if not 0 < distrusted_from <= end])
            self.bases.append(base)
            if not is_anchor:
                tree = Tree(base, line["from_seq"], base64.b64decode(line["frontier"], validate=True))
                if (line["base"], line["end_seq"]) != (base, end):
                    raise ValueError("columns")
            self.marks.setdefault(end, {}).setdefault((is_anchor, base, root), tree)
            self.notes.append(((end, base, root), line.get("from_seq", 0), line["note"]))
            if line.get("anchored_at"):
                self.anchor_times.setdefault((end, base, root), line["anchored_at"])
        except ValueError:
            if self.keys and not is_anchor:
                self.find("forged checkpoint", line["from_seq"], line["end_seq"])

    def add_removal(self, line):
        if line["number"] <= self.number:
            return  # the same notes come again at the end of the stream
        self.number, first, last = line["number"], 0, 0
        try:
            name, kind, span, _, *rest = line["note"].rpartition("\n\n")[0].split("\n")
            if name != self.name or kind not in ("gap", "retention"):
                raise ValueError("text")
            first, last = map(int, span.split())
            base, frontier = rest[0].split() if rest else (0, "")
            tree = Tree(int(base), last + 1, base64.b64decode(frontier)) if rest else None
            signed_text(line["note"], self.run.platform, [key for key, _ in self.run.keys.get(("", ""), ())])
            self.removals.append((first, last, kind, tree))
        except ValueError:
            self.find("forged removal", first, last)

    def add_record(self, line, raw):
        seq, bytes_, event = line["seq"], *self.run.check_row(line, raw, self.where, line["seq"])
        before, self.traces[seq] = line["epoch"], event.get("trace_id")
        if seq <= self.before[0] or seq < self.first:
            return self.find("out of order", seq, seq)
        is_start = event.get("kind") in ("engine.started", "leader.changed")  # an epoch begins, and names the one before it
        if is_start:
            before = event["previous"].get("epoch") if isinstance(event.get("previous"), dict) else None
        if self.before[0] == seq - 1 > 0 and before not in (None, self.before[1]):
            self.find("altered column epoch", seq - is_start, seq - is_start)
        self.before, self.times[seq], self.leaves[seq] = (seq, line["epoch"]), str(event.get("timestamp", "")), sha(b"\0", bytes_)

    # ---- the walk ----

    def finish(self, position):
        for edge in ([self.first] if self.first > 1 else []) + [self.last]:  # a part has a record on each side that is not of its time
            if edge in self.times and (self.run.times[0] or "") <= self.times[edge] < (self.run.times[1] or "~"):
                self.find("cut", edge, edge)
        self.marks = {end: marks for end, marks in self.marks.items() if self.first <= end and (not self.last or end <= self.last)}
        self.read_witnesses()
        following = self.walk()
        ends = [end for end, marks in self.marks.items() if end >= following]
        last = max([position - 1 if position else self.last] + [end for end in ends if any(self.marks[end].values())])
        if position and following > position:
            self.find("beyond the position", position, following - 1)
        if max(ends, default=0) > last:
            self.find("older database", following, max(ends))
        dropped = [self.settle(*hole) for hole in [("missing", *hole) for hole in self.holes] + [("removed tail", following, last)]]
        if self.unread > max(self.good, self.refuted):
            self.find("no checkpoint", self.good + 1, self.unread)
        if not self.bases or not self.keys:
            self.find("no checkpoint" if self.keys else "no key", self.first if following > self.first else 0, following - 1)
        for _ in [witness for witness in self.run.witnesses if self.times and witness not in self.witnessed]:
            self.find("not witnessed", self.first if following > self.first else 0, following - 1)
        self.report(max(dropped))

    def read_witnesses(self):
        for witness in self.run.witnesses:
            for mark, first, note in self.notes:
                try:
                    if mark[0] in self.marks and witness_time(note, witness):
                        self.witness_times.setdefault(mark, {})[witness] = witness_time(note, witness)
                except InvalidSignature:
                    self.find("forged witness", first, mark[0])

    def walk(self):
        """Computes the root that each checkpoint has signed. Returns the number that the next record would have."""
        anchor_bases = {base for marks in self.marks.values() for is_anchor, base, _ in marks if is_anchor}
        starts, following = {}, self.first
        for _, marks in sorted(self.marks.items()):
            for tree in filter(None, marks.values()):
                starts.setdefault(tree.start, []).append(tree)
        for seq, leaf in sorted(self.leaves.items()):
            if seq > following:
                self.holes.append((following, seq - 1))
                self.tree, self.other = next((tree for _, last, _, tree in self.removals if tree and last == seq - 1), None), None
                self.meet(seq - 1, True)
            for tree in starts.get(seq, ()):
                if not self.tree or self.tree.base != tree.base:
                    self.tree = tree
                elif self.tree.roots != tree.roots:
                    self.other = tree
            if not self.tree and seq in anchor_bases:
                self.tree = Tree(seq, seq)
            for tree in filter(None, (self.tree, self.other)):
                tree.append(leaf)
            self.meet(seq)
            following = seq + 1
        return following

    def meet(self, seq, in_hole=False):
        """The roots that were signed for the records up to this one; those of anchors are last."""
        for (is_anchor, base, root), mark in sorted(self.marks.get(seq, {}).items(), key=lambda one: one[0]):
            tree, other = (one if one and one.base == base else None for one in (self.tree, self.other))
            if tree and tree.root() == root:
                if other and mark:
                    self.find("forged frontier", mark.start, seq)
                self.other = None
            elif other and other.root() == root:
                if self.good_from <= other.start - 1 <= self.good:
                    self.find("second history", mark.start if mark else base, seq)
                else:
                    self.find("altered", max(self.good + 1, self.tree.start), other.start - 1)
                self.tree, self.other = other, None
            else:
                self.refuted = seq if tree else self.refuted
                self.unread = seq if is_anchor and not tree and not in_hole else self.unread
                if tree and is_anchor:
                    self.find("second history", base, seq)
                elif tree:
                    self.find("altered", max(self.good + 1, tree.start), seq)
                    self.tree = self.other = None
                continue
            self.anchored = (seq, base, root) if is_anchor else self.anchored
            for witness, at in self.witness_times.get((seq, base, root), {}).items():
                self.witnessed[witness] = (seq, at)
            if seq > self.good:
                self.good_from = self.tree.start if not self.good or self.tree.start > self.good + 1 else self.good_from
                self.covered += seq + 1 - max(self.tree.start, self.good + 1)
                self.good = seq

    def settle(self, kind, first, last):
        """Finds the records of a hole that no note names. Returns the last one that retention dropped."""
        dropped, base = 0, min(self.bases, default=0)  # what is from before the first tree, nothing has signed
        while first <= last:
            note = next((one for one in self.removals if one[0] <= first <= one[1]), None)
            if note:
                dropped, first = note[1] if note[2] == "retention" else dropped, note[1] + 1
                continue
            until = min([one[0] for one in self.removals if one[0] > first] + [last + 1])
            if until > base:
                self.find(kind, max(first, base), until - 1)
            first = until
        return dropped

    def report(self, dropped):
        time, text = self.times.get(self.good, "-"), f"{self.where}: {len(self.times)} records, {self.covered} proved"
        text += (f", dropped by retention until {dropped}" if dropped else "") + f"; complete until the checkpoint of {time} (record {self.good})"
        self.run.until["checkpoint"].append(time)
        if self.anchored:
            anchor = self.anchor_times.get(self.anchored, self.times.get(self.anchored[0], "-"))
            self.run.until["anchor"].append(anchor)
            text += f", the anchor of {anchor} (record {self.anchored[0]})"
        for witness, (seq, at) in self.witnessed.items():
            at = datetime.datetime.fromtimestamp(at, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.000Z")
            self.run.until["signature of the witness"].append(at)
            text += f", signed by the witness {witness.split('+')[0]} at {at} (record {seq})"
        print(text)


class Run:
    def __init__(self, own_keys):
        self.own_keys, self.keys, self.anchors, self.platform, self.times = own_keys, {}, {}, "", (None, None)
        self.findings, self.listed, self.stream, self.witnesses = 0, [], None, []
        self.until = {"anchor": [], "signature of the witness": [], "checkpoint": []}

    def find(self, kind, where, first, last, traces=()):
        self.findings += 1
        shown = ", ".join(map(str, traces[:8])) + (f", and {len(traces) - 8} more" if len(traces) > 8 else "")
        print(f"{kind}: {where} {first}-{last}{' trace ' + shown if shown else ''}")

    def add_key(self, line):
        if line.get("is_registered", True):
            self.keys.setdefault((line["node"], line["journal"]), []).append((base64.b64decode(line["public_key"]), line.get("distrusted_from", 0)))
        else:
            self.find("forged key", f"{line['node']}/{line['journal']}", 0, 0)

    def check_row(self, line, raw, where, number):
        """The bytes of a row, exactly as they are stored, and its event."""
        bytes_ = base64.b64decode(line["bytes"]) if "bytes" in line else raw[raw.index(b',"event":') + 9:-1]
        try:
            text = bytes_.decode()
            if where == "platform":  # posted events are kept as they came, and the hash of an external one is another system's
                event = json.loads(text)
                ordered = json.dumps(event, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
                is_good = event["kind"].startswith("external.") or read_event(ordered)[1] or read_event(text)[1]
            else:
                event, is_good = read_event(text)
        except (ValueError, IndexError, KeyError, TypeError, AttributeError, RecursionError):
            event, is_good = {}, False
        if event.get("kind") in (("audit.read",) if where == "platform" else ("review.approved", "review.denied")):
            self.listed.append(sha(bytes_))
        for kind in [f"altered column {name}" for name in line.get("columns", ())] + ([] if is_good else ["altered"]):
            self.find(kind, where, number, number, [event.get("trace_id")])
        return bytes_, event

    def add_line(self, line, raw):
        kind, where = line["line"], (line.get("node"), line.get("journal"))
        if kind == "evidence":
            self.platform, self.times = "writ/platform/" + line["log_id"], (line.get("from"), line.get("to"))
        elif kind == "policy":
            if hashlib.sha256(line["content"].encode()).hexdigest() != line["digest"]:
                self.find("altered", f"policy/{line['name']}", line["version"], line["version"])
        elif kind == "key":
            self.add_key(line) if self.own_keys else None
        elif kind == "own":
            self.check_row(line, raw, "platform", line["id"])
        elif kind != "end":
            if self.stream and self.stream.name != stream_name(*where):
                self.find("cut", self.stream.where, self.stream.before[0] + 1, self.stream.before[0] + 1)
                self.stream.finish(0)
                self.stream = None
            self.stream = self.stream or Stream(self, *where)
            if kind == "stream_end":
                self.stream.finish(line.get("next_seq", 0))
                self.stream = None
            else:
                self.stream.add_line(kind, line, raw)

    def read(self, path):
        line = {}
        with open(path, "rb") as file:
            for raw in file:
                raw = raw.rstrip(b"\r\n")
                head, comma, _ = raw.partition(b',"event":')  # no string of the head can have these bytes: a quote in a string is escaped
                line = json.loads(head + b"}" if comma else raw)
                self.add_line(line, raw)
        if self.stream:
            self.stream.finish(0)
        if line.get("line") != "end" or self.stream:
            self.find("cut", "evidence", 0, 0)
        for name, marks in self.anchors.items():  # of streams that are not here
            self.find("older database", "/".join(map(unquote, name.split("/")[1:])), 1, max(mark["end"] for mark in marks))

    def read_anchors(self, path):
        for file in sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]:
            is_note = file.open("rb").read(5) == b"writ/"
            for text in [file.read_bytes()] if is_note else file.open("rb"):
                try:
                    line = {"note": text.decode()} if is_note else json.loads(text)
                    if line.get("line", "checkpoint") == "checkpoint":
                        origin, size, _ = line["note"].split("\n", 2)
                        name, _, base = origin.rpartition("/")
                        self.anchors.setdefault(name, []).append({**line, "end": int(base) + int(size) - 1})
                except (ValueError, KeyError, AttributeError):
                    pass  # the beginning of a line that a power cut has ended

    def read_folder(self, folder):
        """What a person reads in the folder is what the evidence has."""
        digests = {file.stem for file in (folder / "policies").iterdir()}
        for file in sorted((folder / "policies").iterdir()):
            if hashlib.sha256(file.read_bytes()).hexdigest() != file.stem:
                self.find("altered", f"policies/{file.name}", 0, 0)
        for one in json.loads((folder / "policy-sets.json").read_text()):
            documents = one["documents"]
            text = "".join(f"{d['name']} {d['digest']}\n" for d in documents or ())
            if documents is not None and (hashlib.sha256(text.encode()).hexdigest() != one["policy_digest"] or not {d["digest"] for d in documents} <= digests):
                self.find("altered", f"policy-sets.json/{one['policy_digest'][:16]}", 0, 0)
        left = set(self.listed)
        for name in ("resolutions.ndjson", "readers.ndjson"):
            for leaf in map(sha, (folder / name).read_bytes().splitlines()):
                if leaf not in left:
                    self.find("altered", name, 0, 0)
                left.discard(leaf)
        for _ in left:
            self.find("missing", "resolutions.ndjson", 0, 0)
        for file in sorted((folder / "proofs").iterdir()):
            if not self.is_proved(json.loads(file.read_text())):
                self.find("altered", f"proofs/{file.name}", 0, 0)

    def is_proved(self, proof):
        """RFC 9162, 2.1.3.2."""
        try:
            text = signed_text(proof["checkpoint"], f"{stream_name(proof['node'], proof['journal'])}/{proof['base']}",
                               [key for key, _ in self.keys.get((proof["node"], proof["journal"]), ())])
        except ValueError:
            return False
        _, size, root = text.split("\n")
        at, last, node = proof["seq"] - proof["base"], int(size) - 1, sha(b"\0", base64.b64decode(proof["record"]))
        for one in map(base64.b64decode, proof["hashes"]):
            if at & 1 or at == last:
                node = sha(b"\1", one, node)
                while at and not at & 1:
                    at, last = at >> 1, last >> 1
            else:
                node = sha(b"\1", node, one)
            at, last = at >> 1, last >> 1
        return last == 0 and node == base64.b64decode(root)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("evidence", nargs="?", type=pathlib.Path)
    parser.add_argument("--proof"), parser.add_argument("--keys"), parser.add_argument("--anchors", type=pathlib.Path)
    parser.add_argument("--witness", action="append", default=[])
    asked = parser.parse_args()
    run = Run(not asked.keys)
    run.witnesses = asked.witness
    for line in map(json.loads, open(asked.keys)) if asked.keys else ():
        if line.get("line") == "key":
            run.add_key(line)
    if asked.anchors:
        run.read_anchors(asked.anchors)
    if asked.proof:
        proof = json.load(open(asked.proof))
        if not asked.keys:
            run.add_key(proof["key"])
        is_proved = run.is_proved(proof)
        print("the record is in the signed tree" if is_proved else "NOT PROVED: the record is not in the signed tree")
        return 0 if is_proved else 1
    run.read(asked.evidence / "evidence.ndjson" if asked.evidence.is_dir() else asked.evidence)
    if asked.evidence.is_dir():
        run.read_folder(asked.evidence)
    what = next((what for what, times in run.until.items() if times), "checkpoint")
    print(f"NOT COMPLETE: {run.findings} findings" if run.findings else f"complete until the {what} of {max(run.until[what], default='-')}")
    return 1 if run.findings else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Verifies an evidence file of writ without any code of writ: schemas/evidence.md is all that it follows.

  verify.py EVIDENCE [--keys FILE] [--anchors PATH]   every record against the signed checkpoints
  verify.py FOLDER [--keys FILE] [--anchors PATH]     the same of a folder (`writ evidence export`), and all else that is in it
  verify.py --proof PROOF [--keys FILE]               one record (`writ audit prove`)

FILE of --keys has the lines `key` that the auditor got from another source; without it the file's own lines count, as far as the
platform had registered the keys. PATH of --anchors has checkpoints that were kept outside of the store: the file of an anchor, a folder with
the objects of a bucket, or an earlier evidence file. Exit status: 0 proved, 1 something is wrong.
"""
import argparse
import base64
import hashlib
import json
import pathlib
import sys
from urllib.parse import quote, unquote

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

OUTCOME = set("action actor decision expires_at input_hash key_id kind mode policy_digest reason request_id review_id rule safe_args safe_tool"
              " tenant_id timestamp trace_id user_id".split())
FIRST_OF_EPOCH = ("engine.started", "leader.changed")


def sha(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


class Tree:
    """RFC 6962: the roots of the complete subtrees, the largest first."""

    def __init__(self, base, start, frontier=bytes(8)):
        self.base, self.start, self.size = base, start, int.from_bytes(frontier[:8], "little")
        self.roots = [frontier[at:at + 32] for at in range(8, len(frontier), 32)]
        if len(self.roots) != bin(self.size).count("1") or len(frontier) % 32 != 8:
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


def note_text(note, name, keys):
    """The text of a signed note, if one of the keys signed it under this name; else None."""
    text, _, lines = note.rpartition("\n\n")
    text += "\n"
    for line in lines.splitlines():
        dash, _, rest = line.partition(" ")
        signer, _, digits = rest.partition(" ")
        raw = base64.b64decode(digits) if dash == "—" and signer == name else b""
        for key in keys:
            if raw[:4] == sha(name.encode(), b"\n\1", key)[:4]:
                try:
                    Ed25519PublicKey.from_public_bytes(key).verify(raw[4:], text.encode())
                    return text
                except InvalidSignature:
                    pass
    return None


def members(text):
    """(name, its text in the object) of a canonical object."""
    scan, at = json.JSONDecoder().raw_decode, 1
    while text[at] != "}":
        name, colon = scan(text, at)
        end = scan(text, colon + 1)[1]
        yield name, text[at:end]
        at = end + (text[end] == ",")


def output_hash_is_right(event, text):
    if "output_hash" not in event:
        return True
    covered = "{" + ",".join(part for name, part in members(text) if name in OUTCOME) + "}"
    return event["output_hash"] == hashlib.sha256(covered.encode()).hexdigest()


def event_bytes(line, raw):
    """The bytes of the record, exactly as they are stored."""
    return base64.b64decode(line["bytes"]) if "bytes" in line else raw[raw.index(b',"event":') + 9:-1]


class Stream:
    def __init__(self, run, node, journal):
        self.run, self.node, self.journal, self.name = run, node, journal, f"writ/{quote(node, safe='')}/{quote(journal, safe='')}"
        self.keys = run.keys.get((node, journal), [])
        self.tree = self.other = None
        self.next, self.good, self.good_from, self.first_base, self.records, self.covered, self.dropped = 1, 0, 0, None, 0, 0, 0
        self.first, self.last, self.unread, self.refuted, self.anchored, self.anchor_times = 1, 0, 0, 0, 0, {}
        self.marks, self.removals, self.holes, self.asides, self.traces, self.times, self.signed, self.epoch, self.number = {}, [], [], {}, {}, {}, False, None, 0
        self.anchor_bases = set()
        for mark in run.anchors.pop(self.name, []):
            self.add_checkpoint(mark, True)

    def set_range(self, first, last):
        self.first = self.next = first
        self.last = last
        self.marks = {end: marks for end, marks in self.marks.items() if end >= first and (not last or end <= last)}

    def is_asked(self, time):
        return (self.run.times[0] or "") <= time and (self.run.times[1] is None or time < self.run.times[1])

    def check_edge(self, seq, edge):
        if seq == edge and self.is_asked(self.times.get(seq, "")):
            self.find("cut", seq, seq)

    def find(self, kind, first, last):
        self.run.find(kind, f"{self.node}/{self.journal}", first, last, [t for s, t in self.traces.items() if first <= s <= last and t])

    def add_checkpoint(self, line, is_anchor=False):
        if not self.keys:
            return
        origin = line["note"].partition("\n")[0]
        try:
            base = int(origin.removeprefix(self.name + "/"))
            end = base + int(line["note"].split("\n", 2)[1]) - 1
            keys = [key for key in self.keys if not 0 < self.run.distrusted.get((self.node, self.journal, key), 0) <= end]
            _, size, root = (note_text(line["note"], f"{self.name}/{base}", keys) or "").splitlines()
            end, tree = base + int(size) - 1, None
            self.signed, self.first_base = True, min(base, self.first_base or base)
            if not is_anchor:
                tree = Tree(base, line["from_seq"], base64.b64decode(line["frontier"], validate=True))
                if (line["base"], line["end_seq"], tree.size) != (base, end, line["from_seq"] - base):
                    raise ValueError("columns")
        except (ValueError, IndexError):
            return is_anchor or self.find("forged checkpoint", line["from_seq"], line["end_seq"])
        self.anchor_bases |= {base} if is_anchor else set()
        mark = (base, base64.b64decode(root), tree)
        if is_anchor and line.get("anchored_at"):
            self.anchor_times.setdefault((end, *mark[:2]), line["anchored_at"])
        if end >= self.next and (not self.last or end <= self.last) and not any(m[:2] == mark[:2] and bool(m[2]) == bool(tree) for m in self.marks.get(end, ())):
            self.marks.setdefault(end, []).append(mark)

    def add_removal(self, note):
        try:
            name, kind, span, _, *rest = note.rpartition("\n\n")[0].splitlines()
            first, last = map(int, span.split())
            base, frontier = rest[0].split() if rest else (0, "")
            tree = Tree(int(base), last + 1, base64.b64decode(frontier)) if rest else None
            if name != self.name or kind not in ("gap", "retention"):
                raise ValueError("text")
        except ValueError:
            return self.find("forged removal", 0, 0)
        if note_text(note, self.run.platform, self.run.keys.get(("", ""), [])) is None:
            return self.find("forged removal", first, last)
        return self.removals.append((first, last, kind, tree))

    def meet(self, seq, is_hole=False):
        for base, root, tree in sorted(self.marks.pop(seq, ()), key=lambda mark: mark[2] is None):  # anchors last
            if self.tree and self.tree.base == base and self.tree.root() == root:
                if self.other and tree and self.other.base == base:
                    self.find("forged frontier", tree.start, seq)
                self.other = None
            elif self.other and self.other.base == base and self.other.root() == root:
                before = self.other.start - 1
                proved = self.good_from <= before <= self.good
                self.find(*(("second history", tree.start, seq) if proved else ("altered", max(self.good + 1, self.tree.start), before)))
                self.tree, self.other = self.other, None
            else:
                if self.tree and self.tree.base == base:
                    self.refuted = seq
                elif not tree and not is_hole:
                    self.unread = seq
                if self.tree and self.tree.base == base:
                    self.find("altered" if tree else "second history", max(self.good + 1, self.tree.start) if tree else base, seq)
                if tree and self.tree and self.tree.base == base:
                    self.tree = self.other = None
                continue
            self.anchored = (seq, base, root) if not tree else self.anchored
            if seq > self.good:
                first = self.tree.start
                self.good_from = first if not self.good or first > self.good + 1 else self.good_from
                self.covered += seq + 1 - max(first, self.good + 1)
                self.good = seq

    def append(self, seq, leaf):
        for mark in [m for marks in self.marks.values() for m in marks] if self.run.opens(self, seq) else ():
            tree = mark[2]
            if tree and tree.start == seq:
                if not self.tree or self.tree.base != tree.base:
                    self.tree = Tree(tree.base, seq, tree.size.to_bytes(8, "little") + b"".join(tree.roots))
                elif self.tree.roots != tree.roots:
                    self.other = Tree(tree.base, seq, tree.size.to_bytes(8, "little") + b"".join(tree.roots))
        if not self.tree and seq in self.anchor_bases:
            self.tree = Tree(seq, seq)
        for tree in filter(None, (self.tree, self.other)):
            tree.append(leaf)
        self.next = seq + 1
        self.meet(seq)

    def fill(self, end):
        for near in [*sorted(s for s in self.asides if self.next <= s < end), end] if self.next < end else ():
            if near > self.next:
                self.tree = next((t for _, last, _, t in self.removals if t and last == near - 1), None)
                self.other = None
                self.holes.append((self.next, near - 1))
                self.next = near
                for seq in [s for s in self.marks if s < near]:
                    self.meet(seq, True) if seq == near - 1 else self.marks.pop(seq)
            if near < end:
                self.append(near, self.asides[near])

    def add_record(self, line, bytes_, event):
        seq = line["seq"]
        self.traces[seq] = event.get("trace_id") if isinstance(event.get("trace_id"), str) else None
        if seq < self.next:
            return self.find("out of order", seq, seq)
        self.fill(seq)
        started = event.get("kind") in FIRST_OF_EPOCH
        before = (event.get("previous") or {}).get("epoch") if started and isinstance(event.get("previous"), dict) else line["epoch"]
        if self.epoch and self.epoch[0] == seq - 1 and before not in (None, self.epoch[1]):
            self.find("altered column epoch", seq - started, seq - started)
        self.epoch = (seq, line["epoch"])
        self.times[seq] = event.get("timestamp", "")
        if self.first > 1:
            self.check_edge(seq, self.first)
        self.append(seq, sha(b"\0", bytes_))
        self.records += 1

    def finish(self, position):
        if self.last and self.epoch:
            self.check_edge(self.epoch[0], self.last)
        self.fill(max(self.asides, default=0) + 1)
        checkpoints = [end for end, marks in self.marks.items() if any(m[2] for m in marks)]
        last = max([position - 1 if position else self.last, *checkpoints])
        if position and self.next > position:
            self.find("beyond the position", position, self.next - 1)
        if max(self.marks, default=0) > max(last, self.next - 1):
            self.find("older database", self.next, max(self.marks))
        for kind, first, end in [("missing", *hole) for hole in self.holes] + [("removed tail", self.next, last)]:
            while first <= end:
                note = next((r for r in self.removals if r[0] <= first <= r[1]), None)
                if note:
                    self.dropped, first = max(self.dropped, note[1] if note[2] == "retention" else 0), note[1] + 1
                    continue
                until = min([r[0] for r in self.removals if r[0] > first] + [end + 1])
                if self.first_base is None or until > self.first_base:
                    self.find(kind, max(first, self.first_base or 0), until - 1)
                first = until
        if self.unread > max(self.good, self.refuted):
            self.find("no checkpoint", self.good + 1, self.unread)
        if not self.keys or not self.signed:
            self.find("no checkpoint" if self.keys else "no key", self.first if self.next > self.first else 0, self.next - 1)
        dropped = f", dropped by retention until {self.dropped}" if self.dropped else ""
        time, anchor = self.times.get(self.good, "-"), self.anchored and self.anchor_times.get(self.anchored, self.times.get(self.anchored[0], "-"))
        self.run.until = max(self.run.until, ("anchor", anchor) if anchor else ("", ""), key=lambda one: one[1])
        self.run.until_checkpoint = max(self.run.until_checkpoint, time)
        print(f"{self.node}/{self.journal}: {self.records} records, {self.covered} proved{dropped}; complete until the checkpoint of"
              f" {time} (record {self.good})" + (f", the anchor of {anchor} (record {self.anchored[0]})" if anchor else ""))


class Run:
    def __init__(self):
        self.keys, self.anchors, self.platform, self.findings, self.stream, self.starts = {}, {}, "", [], None, set()
        self.times, self.until, self.until_checkpoint, self.distrusted, self.listed = (None, None), ("", ""), "", {}, []

    def find(self, kind, where, first, last, traces=()):
        self.findings.append((kind, where, first, last))
        shown = ", ".join(traces[:8]) + (f", and {len(traces) - 8} more" if len(traces) > 8 else "")
        print(f"{kind}: {where} {first}-{last}{' trace ' + shown if shown else ''}")

    def opens(self, stream, seq):
        return (stream.name, seq) in self.starts

    def add_key(self, line):
        if line.get("is_registered", True):
            self.keys.setdefault((line["node"], line["journal"]), []).append(base64.b64decode(line["public_key"]))
            self.distrusted[(line["node"], line["journal"], self.keys[line["node"], line["journal"]][-1])] = line.get("distrusted_from", 0)
        else:
            self.find("forged key", f"{line['node']}/{line['journal']}", 0, 0)

    def check_row(self, line, where, seq, bytes_):
        try:
            text = bytes_.decode()
            event = json.loads(text)
            if where != "platform":
                good = text[0] + text[-1] == "{}" and output_hash_is_right(event, text)
            else:  # posted events are kept as they came, and the hash of an external one is another system's
                sorted_ = json.dumps(event, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
                good = event["kind"].startswith("external.") or output_hash_is_right(event, sorted_) or output_hash_is_right(event, text)
        except (ValueError, IndexError, KeyError, TypeError, AttributeError):
            event, good = {}, False
        event = event if isinstance(event, dict) else {}
        if event.get("kind") in (("review.approved", "review.denied") if where != "platform" else ("audit.read",)):
            self.listed.append(bytes_)
        for name in line.get("columns", ()):
            self.find("altered column " + name, where, seq, seq, [str(event.get("trace_id"))])
        if not good:
            self.find("altered", where, seq, seq, [str(event.get("trace_id"))])
        return event

    def read(self, path, own_keys):
        is_over = False
        for raw in open(path, "rb"):
            raw = raw.rstrip(b"\r\n")
            cut = raw.find(b',"event":')
            line = json.loads(raw if cut < 0 else raw[:cut] + b"}")
            kind, key = line["line"], (line.get("node"), line.get("journal"))
            if kind == "evidence":
                self.platform = "writ/platform/" + line["log_id"]
                self.times = (line.get("from"), line.get("to"))
            elif kind == "policy":
                if hashlib.sha256(line["content"].encode()).hexdigest() != line["digest"]:
                    self.find("altered", f"policy/{line['name']}", line["version"], line["version"])
            elif kind == "key" and own_keys:
                self.add_key(line)
            elif kind == "own":
                self.check_row(line, "platform", line["id"], event_bytes(line, raw))
            elif kind == "end":
                is_over = True
            elif kind in ("range", "removal", "checkpoint", "quarantined", "record", "stream_end"):
                if self.stream is None or (self.stream.node, self.stream.journal) != key:
                    self.stream = Stream(self, *key)
                self.add(kind, line, raw)
        if not is_over or self.stream is not None:
            self.find("cut", "evidence", 0, 0)
        for name, marks in self.anchors.items():  # of streams that are not here
            self.find("older database", "/".join(map(unquote, name.removeprefix("writ/").split("/"))), 1, max(mark["end"] for mark in marks))

    def read_anchors(self, path):
        for file in sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]:
            raw = file.read_bytes()
            for text in [raw] if raw.startswith(b"writ/") else raw.split(b"\n"):
                try:
                    line = {"note": text.decode()} if text.startswith(b"writ/") else json.loads(text)
                    if line.get("line", "checkpoint") == "checkpoint":
                        origin, size, _ = line["note"].split("\n", 2)
                        name, _, base = origin.rpartition("/")
                        self.anchors.setdefault(name, []).append({**line, "end": int(base) + int(size) - 1})
                except (ValueError, KeyError, AttributeError):
                    pass  # the beginning of a line that a power cut has ended

    def read_folder(self, folder):
        """What a person reads in the folder is what the evidence has."""
        texts, listed = set(), {hashlib.sha256(raw).digest() for raw in self.listed}
        for file in sorted((folder / "policies").iterdir()):
            texts.add(file.stem)
            if hashlib.sha256(file.read_bytes()).hexdigest() != file.stem:
                self.find("altered", f"policies/{file.name}", 0, 0)
        for one in json.loads((folder / "policy-sets.json").read_text()):
            text = "".join(f"{d['name']} {d['digest']}\n" for d in one["documents"] or ())
            if one["documents"] is not None and (hashlib.sha256(text.encode()).hexdigest() != one["policy_digest"] or not {d["digest"] for d in one["documents"]} <= texts):
                self.find("altered", f"policy-sets.json/{one['policy_digest'][:16]}", 0, 0)
        for name in ("resolutions.ndjson", "readers.ndjson"):
            for raw in (folder / name).read_bytes().splitlines():
                if hashlib.sha256(raw).digest() not in listed:
                    self.find("altered", name, 0, 0)
                listed.discard(hashlib.sha256(raw).digest())
        for _ in listed:
            self.find("missing", "resolutions.ndjson", 0, 0)
        for file in sorted((folder / "proofs").iterdir()):
            if not prove(json.loads(file.read_text()), self):
                self.find("altered", f"proofs/{file.name}", 0, 0)

    def add(self, kind, line, raw):
        stream = self.stream
        if kind == "range":
            stream.set_range(line["from_seq"], line["end_seq"])
        elif kind == "removal" and line["number"] > stream.number:  # the same notes come again at the end of the stream
            stream.number = line["number"]
            stream.add_removal(line["note"])
        elif kind == "removal":
            pass
        elif kind == "checkpoint":
            self.starts.add((stream.name, line["from_seq"]))
            stream.add_checkpoint(line)
        elif kind == "quarantined":
            stream.asides[line["seq"]] = sha(b"\0", base64.b64decode(line["bytes"]))
        elif kind == "record":
            bytes_ = event_bytes(line, raw)
            stream.add_record(line, bytes_, self.check_row(line, f"{stream.node}/{stream.journal}", line["seq"], bytes_))
        else:
            stream.finish(line.get("next_seq", 0))
            self.stream = None


def prove(proof, run):
    """RFC 9162, 2.1.3.2."""
    name = f"writ/{quote(proof['node'], safe='')}/{quote(proof['journal'], safe='')}/{proof['base']}"
    text = note_text(proof["checkpoint"], name, run.keys.get((proof["node"], proof["journal"]), []))
    if text is None:
        return False
    size, root = int(text.splitlines()[1]), base64.b64decode(text.splitlines()[2])
    at, last, hash_ = proof["seq"] - proof["base"], size - 1, sha(b"\0", base64.b64decode(proof["record"]))
    for one in map(base64.b64decode, proof["hashes"]):
        if at & 1 or at == last:
            hash_ = sha(b"\1", one, hash_)
            while at and not at & 1:
                at, last = at >> 1, last >> 1
        else:
            hash_ = sha(b"\1", hash_, one)
        at, last = at >> 1, last >> 1
    return last == 0 and hash_ == root


def main(words=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("evidence", nargs="?")
    parser.add_argument("--proof"), parser.add_argument("--keys"), parser.add_argument("--anchors", type=pathlib.Path)
    asked, run = parser.parse_args(words), Run()
    for line in map(json.loads, open(asked.keys)) if asked.keys else ():
        if line.get("line") == "key":
            run.add_key(line)
    if asked.anchors:
        run.read_anchors(asked.anchors)
    if asked.proof:
        proof = json.load(open(asked.proof))
        if not asked.keys:
            run.add_key(proof["key"])
        good = prove(proof, run)
        print("the record is in the signed tree" if good else "NOT PROVED: the record is not in the signed tree")
        return 0 if good else 1
    folder = pathlib.Path(asked.evidence)
    run.read(folder / "evidence.ndjson" if folder.is_dir() else folder, not asked.keys)
    if folder.is_dir():
        run.read_folder(folder)
    what, until = run.until if run.until[0] else ("checkpoint", run.until_checkpoint)
    print(f"NOT COMPLETE: {len(run.findings)} findings" if run.findings else f"complete until the {what} of {until}")
    return 1 if run.findings else 0


if __name__ == "__main__":
    sys.exit(main())

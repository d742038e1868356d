"""Evidence: what a stolen ingest key can do to the trail, and the checkpoints of a stream, computed apart from the code
(schemas/evidence.md)."""

import base64
import hashlib
import json
import os
import pathlib
import pty
import re
import sqlite3
import struct
import subprocess
import sys

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

import harness
import pytest
import run_mac
from conftest import BASE_POLICY
from test_contract import refused
from test_ingest import INGEST, event, ndjson

AGENT = "/v1/agent/authorize"


def decide(stack, count=1):
    with stack.at_engine() as wire:
        for n in range(count):
            assert wire.post(AGENT, {"action": f"get_{n}"}).status == 200


def rows(stack, sql, *parameters):
    with sqlite3.connect(f"file:{stack.data / 'platform.db'}?mode=ro", uri=True) as store:
        return store.execute(sql, parameters).fetchall()


# ---- RFC 6962, written a second time ----

def node(left, right):
    return hashlib.sha256(b"\1" + left + right).digest()


def grow(roots, leaf):
    """`roots`: [(leaves, root)], the largest subtree first."""
    roots = [*roots, (1, leaf)]
    while len(roots) > 1 and roots[-1][0] == roots[-2][0]:
        (size, left), (_, right) = roots[-2:]
        roots[-2:] = [(2 * size, node(left, right))]
    return roots


def root_of(roots):
    found = roots[-1][1]
    for _, left in reversed(roots[:-1]):
        found = node(left, found)
    return found


def read_frontier(text):
    data = base64.b64decode(text)
    size, = struct.unpack("<Q", data[:8])
    bits = [1 << n for n in reversed(range(64)) if size >> n & 1]
    assert len(data) == 8 + 32 * len(bits)
    return [(bit, data[8 + 32 * n:40 + 32 * n]) for n, bit in enumerate(bits)]


def key_id(name, public):
    return hashlib.sha256(name.encode() + b"\n\1" + public).digest()[:4]


def check_note(note, name, public):
    """Returns the lines of its text."""
    text, _, signatures = note.rpartition("\n\n")
    text += "\n"
    dash, signer, digits = signatures.removesuffix("\n").split(" ")
    signature = base64.b64decode(digits)
    assert (dash, signer, signature[:4]) == ("\N{EM DASH}", name, key_id(name, public)), note
    Ed25519PublicKey.from_public_bytes(public).verify(signature[4:], text.encode())
    return text.removesuffix("\n").split("\n")


def check_stream(stack):
    """Each checkpoint is signed by the engine's key, and its root is that of the stored rows. Returns the end of the last one."""
    public = base64.b64decode((stack.engine_data / "engine/evidence.pub").read_text())
    (name,), = rows(stack, "SELECT DISTINCT node FROM streams")
    records = dict(rows(stack, "SELECT seq, event FROM records WHERE node = ?", name))
    end, trees = 0, set()
    for base, end, from_seq, frontier, note in rows(stack, "SELECT base, end_seq, from_seq, frontier, note FROM checkpoints ORDER BY end_seq"):
        lines = check_note(note, f"writ/{name}/0/{base}", public)
        roots = read_frontier(frontier)
        assert sum(size for size, _ in roots) == from_seq - base
        for seq in range(from_seq, end + 1):
            roots = grow(roots, run_mac.leaf(records[seq].encode()))
        assert lines == [f"writ/{name}/0/{base}", str(end - base + 1), base64.b64encode(root_of(roots)).decode()], (base, end)
        # and from the tree's beginning
        whole = []
        for seq in range(base, end + 1):
            whole = grow(whole, run_mac.leaf(records[seq].encode()))
        assert whole == roots, (base, end)
        trees.add(base)
    assert end == max(records) and trees == {1}, (end, max(records), trees)
    return end


def test_checkpoints_cover_each_record_over_crashes_and_restarts(fresh):
    stack = fresh()
    stack.start()
    stack.policy("base", BASE_POLICY)
    assert (stack.engine_data / "engine/evidence.key").stat().st_mode & 0o777 == 0o600
    decide(stack, 5)
    for crash in (stack.engine.kill, stack.platform.kill, stack.engine.stop):
        decide(stack, 5)
        crash()
        for program in (stack.platform, stack.engine):
            if program.process is None:
                program.start()
        stack.engine.wait_ready()
        decide(stack, 5)
    stack.engine.stop()
    assert check_stream(stack) > 40
    stack.platform.stop()


def test_a_stolen_ingest_key_stores_nothing_forged(fresh):
    stack = fresh()
    stack.start()
    stack.policy("base", BASE_POLICY)
    pepper = (stack.data / "pepper").read_text()
    public = (stack.engine_data / "engine/evidence.pub").read_text().strip()
    decide(stack, 3)
    stack.engine.stop()
    (name, epoch, after), = rows(stack, "SELECT node, epoch, next_seq FROM streams")
    before = rows(stack, "SELECT count(*) FROM records")
    body = ndjson([event(kind="review.approved")])
    headers = run_mac.headers(pepper, name, epoch, after, body)
    with stack.at_platform("engine") as wire:
        for wrong in ({**headers, "Writ-Mac": None}, {**headers, "Writ-Mac": "0" * 64},
                      {**headers, "Writ-First-Seq": str(after + 1)},
                      {**headers, "Writ-Node": "invented", "Writ-First-Seq": "1"}):
            refused(wire.post(INGEST, body, headers={k: v for k, v in wrong.items() if v is not None}), 403, "bad_mac")
    assert rows(stack, "SELECT count(*) FROM records") == before
    assert rows(stack, "SELECT next_seq FROM streams") == [(after,)]
    # what it posts without a stream does not pass for a record, and yields to one
    posted = event(kind="review.approved")
    with stack.at_platform("engine") as wire:
        assert wire.post(INGEST, posted).status == 201
        assert rows(stack, "SELECT kind FROM records WHERE event_id = ?", posted["event_id"]) == [("external.review.approved",)]
        genuine = ndjson([{**posted, "reason": "as the engine recorded it"}])
        reply = wire.post(INGEST, genuine, headers=run_mac.headers(pepper, name, epoch, after, genuine))
        assert reply.status == 201 and reply.json["accepted"] == 1, reply
    assert stack.metrics(stack.platform)["writ_platform_ingest_unauthenticated_total"] == 4
    assert rows(stack, "SELECT kind, seq FROM records WHERE event_id = ?", posted["event_id"]) == [("review.approved", after)]
    # an admin registers the key that the engine made
    done = stack.cli("engine", "trust", "--node", name, "--public-key", public, "--platform", stack.platform.url, key=stack.keys["root"])
    assert done.returncode == 0 and "count if this key has signed them" in done.stdout, done
    with stack.at_platform("root") as wire:
        listed = wire.get("/api/v1/audit/engine-keys").json["engine_keys"]
    assert [(one["node"], one["is_valid"]) for one in listed] == [("", True), (name, True)] and listed[1]["public_key"] == public


# ---- with programs that these tests stop ----

@pytest.fixture(scope="module")
def own(tmp_path_factory):
    with harness.Stack(tmp_path_factory.mktemp("own")) as running:
        running.policy("base", BASE_POLICY)
        yield running


# ---- who read the trail ----

def reads_of(stack, key):
    """(tenant, requests, reason) of what the platform has recorded when it ended."""
    stack.platform.stop()
    stack.platform.start()
    found = [json.loads(text) for text, in rows(stack, "SELECT event FROM records WHERE kind = 'audit.read' ORDER BY id")]
    return [(e["tenant_id"], e["count"], e["reason"]) for e in found if e["key_id"] == key]


def test_who_read_the_trail_is_recorded_once_a_minute(own):
    stack = own
    decide(stack, 3)
    stack.wait_published()
    key = "key_" + stack.keys["auditor"].split("_")[1]
    with stack.at_platform("auditor") as wire:
        for _ in range(20):
            assert wire.get("/api/v1/audit?kind=decision&limit=2").json["count"] == 2
        assert wire.get("/api/v1/audit?actor=absent").json["count"] == 0
        assert wire.get("/api/v1/audit/trace/abc").json["count"] == 0
        for n in range(5):
            assert wire.get(f"/api/v1/audit?action=get_{n}").status == 200
        assert wire.get("/api/v1/audit?limit=x").status == 400
    reads = reads_of(stack, key)
    assert {tenant for tenant, _, _ in reads} == {"default"} and sum(count for _, count, _ in reads) == 27 and len(reads) <= 2, reads
    text = "; ".join(reason for _, _, reason in reads)
    assert "query actor=absent (1 requests, 0 events)" in text and "trace trace_id=abc (1 requests, 0 events)" in text and "other filters (" in text, text
    assert sum(int(n) for n in re.findall(r"query kind=decision \((\d+) requests", text)) == 20 and sum(map(int, re.findall(r"requests, (\d+) events", text))) == 43, text
    with stack.at_platform("auditor") as wire:  # what it reads of itself is no read
        assert wire.get("/api/v1/audit?kind=audit.read").json["count"] == len(reads)
    assert reads_of(stack, key) == reads
    stack.cli("audit", "verify", "--from", "1h", "--platform", stack.platform.url, key=stack.keys["root"], check=False)
    root = [r for r in rows(stack, "SELECT event FROM records WHERE kind = 'audit.read' AND tenant_id = '*'")]
    assert not root
    stack.platform.stop()
    stack.platform.start()
    (event,), = rows(stack, "SELECT event FROM records WHERE kind = 'audit.read' AND tenant_id = '*'")
    assert json.loads(event)["reason"].startswith("evidence from=20") and json.loads(event)["actor"] == "root"


def test_a_page_ends_with_a_record_that_is_there(own):
    """What arrives before the next page is read, is in that one."""
    stack, seen, place = own, [], "part=streams"
    node = (stack.engine_data / "engine/node").read_text().strip()
    with stack.at_platform("root") as wire:
        for _ in range(4):
            decide(stack, 3)
            stack.wait_published()
            lines = wire.get(f"/api/v1/audit/evidence?{place}").json
            seen += [line["seq"] for line in lines if line["line"] == "record" and line["node"] == node]
            place = "&".join(f"{name}={lines[-1][name]}" for name in ("part", "node", "journal", "seq", "end_seq") if name in lines[-1])
    assert len(seen) >= 9 and seen == list(range(1, len(seen) + 1)), seen


# ---- a key that was stolen ----

def test_a_withdrawn_key_counts_for_what_it_had_signed(own):
    stack = own
    node, public = (stack.engine_data / "engine/node").read_text().strip(), (stack.engine_data / "engine/evidence.pub").read_text().strip()
    words = ("--node", node, "--public-key", public, "--platform", stack.platform.url)
    decide(stack, 3)
    stack.wait_published()
    refused_key = stack.cli("engine", "distrust", *words, key=stack.keys["root"], check=False)
    assert refused_key.returncode == 1 and "no such registered key" in refused_key.stderr
    def untrusted():
        with stack.at_platform(None) as wire:
            return wire.get("/healthz").json.get("untrusted_streams")

    stack.platform.kill()  # it looks for them at its start, and each minute
    stack.platform.start()
    harness.eventually(lambda: untrusted() == [{"journal": "0", "node": node}], "the stream is named")
    stack.cli("engine", "trust", *words, key=stack.keys["root"])
    (stored,), = rows(stack, "SELECT max(end_seq) FROM checkpoints")
    done = stack.cli("engine", "distrust", *words, "--reason", "Its disk was stolen.", key=stack.keys["root"])
    assert f"records before {stored + 1} only" in done.stdout
    decide(stack, 3)
    stack.wait_published()
    assert rows(stack, "SELECT max(end_seq) FROM checkpoints") == [(stored,)]
    again = stack.cli("engine", "trust", *words, key=stack.keys["root"], check=False)
    assert again.returncode == 1 and "was withdrawn" in again.stderr
    found = stack.cli("audit", "verify", "--json", "--platform", stack.platform.url, key=stack.keys["root"])
    stream, = (line for line in map(json.loads, found.stdout.splitlines()) if "stream" in line)
    assert stream["proved_until"] == stored < stream["records"]

    stack.engine.stop()
    for name in ("evidence.key", "evidence.pub"):
        (stack.engine_data / "engine" / name).unlink()
    stack.engine.start()
    public = (stack.engine_data / "engine/evidence.pub").read_text().strip()
    stack.cli("engine", "trust", "--node", node, "--public-key", public, "--platform", stack.platform.url, key=stack.keys["root"])
    decide(stack, 3)
    stack.wait_published()
    found = stack.cli("audit", "verify", "--json", "--platform", stack.platform.url, key=stack.keys["root"])
    stream, = (line for line in map(json.loads, found.stdout.splitlines()) if "stream" in line)
    assert stream["proved_until"] == stream["records"] > stored, found.stdout
    with sqlite3.connect(stack.data / "platform.db") as store:  # the database alone cannot give the key back
        store.execute("UPDATE engine_keys SET distrusted_from = NULL WHERE distrusted_from = ?", (stored + 1,))
    found = stack.cli("audit", "verify", "--json", "--platform", stack.platform.url, key=stack.keys["root"], check=False)
    assert found.returncode == 1 and '"finding":"forged key"' in found.stdout
    with sqlite3.connect(stack.data / "platform.db") as store:
        store.execute("UPDATE engine_keys SET distrusted_from = ? WHERE public_key = ?", (stored + 1, words[3]))


# ---- rows that no engine recorded ----

def test_what_was_posted_is_compared_as_it_came(fresh, tmp_path):
    """Blanks and another order are no alteration, nor is the hash that another system made; a changed member of a restored row is one."""
    stack = fresh()
    restorer = stack.bootstrap_key("restorers", "restorer", "ingest,admin", "*", nodes="*", tenants="*")
    stack.start()
    stack.keys["restorer"] = restorer
    stack.policy("base", BASE_POLICY)
    decide(stack)
    stack.wait_published()
    node, public = (stack.engine_data / "engine/node").read_text().strip(), (stack.engine_data / "engine/evidence.pub").read_text().strip()
    stack.cli("engine", "trust", "--node", node, "--public-key", public, "--platform", stack.platform.url, key=stack.keys["root"])
    (text,), = rows(stack, "SELECT event FROM records WHERE kind = 'decision'")
    restored = dict(reversed({**json.loads(text), "event_id": "evt_restored"}.items()))
    with stack.at_platform("restorer") as wire:
        assert wire.post(INGEST, json.dumps(restored, indent=1)).status == 201
    with stack.at_platform("engine") as wire:
        assert wire.post(INGEST, json.dumps({**restored, "event_id": "evt_other"}, indent=1)).status == 201

    def found(name):
        done = stack.cli("audit", "verify", "--json", "--platform", stack.platform.url, key=stack.keys["root"], check=False)
        file = tmp_path / name
        stack.cli("audit", "export", "--evidence", "--output", file, "--platform", stack.platform.url, key=stack.keys["root"])
        status, text = verified(file)
        assert status == done.returncode, (done.stdout, text)
        return {(line["finding"], line["node"], line["first_seq"]) for line in map(json.loads, done.stdout.splitlines()) if "finding" in line}, text
    assert found("clean")[0] == set()
    refusal = stack.cli("audit", "prove", "evt_restored", "--platform", stack.platform.url, key=stack.keys["root"], check=False)
    assert "it is in no engine's tree" in refusal.stderr, refusal
    (number,), = rows(stack, "SELECT id FROM records WHERE event_id = 'evt_restored'")
    with sqlite3.connect(stack.data / "platform.db") as store:
        store.execute("UPDATE records SET event = replace(event, '\"allow\"', '\"deny\"'), decision = 'deny' WHERE id = ?", (number,))
    altered, text = found("altered")
    assert altered == {("altered", "platform", number)} and f"altered: platform {number}-{number}" in text, (altered, text)


# ---- a folder for an auditor ----

REVIEWED = BASE_POLICY + "# a second version\n"
VERIFY = pathlib.Path(__file__).parents[2] / "ops" / "examples" / "evidence" / "verify.py"
NOTE = 'ok <script>alert("1")</script> & go'


def verified(folder, *words):
    done = subprocess.run([sys.executable, VERIFY, folder, *words], capture_output=True, text=True)
    assert not done.stderr, done.stderr
    return done.returncode, done.stdout


def changed(path, before, after):
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after, 1))
    return text


def test_a_folder_for_an_auditor_is_verified_offline(own, tmp_path):
    stack = own
    root, words = stack.keys["root"], ("--platform", stack.platform.url)
    node, public = (stack.engine_data / "engine/node").read_text().strip(), (stack.engine_data / "engine/evidence.pub").read_text().strip()
    stack.cli("engine", "trust", "--node", node, "--public-key", public, *words, key=root)
    stack.policy("base", REVIEWED)
    stack.keys["reviewer"] = stack.key("reviewers", ["reviewer"], reviewers=["carol"])
    with stack.at_engine() as agent, stack.at_engine("reviewer") as reviewer:
        for verb in ("approve", "deny"):
            review = agent.post(AGENT, {"action": "issue_refund", "args": {"verb": verb}, "confidence": 1}).json["review_id"]
            assert reviewer.post(f"/v1/queue/{review}/{verb}", {"resolved_by": "carol", "note": NOTE}).status == 200
    decide(stack, 20)
    with stack.at_platform("auditor") as wire:
        assert wire.get("/api/v1/audit?action=issue_refund").status == 200
    stack.wait_published()
    stack.platform.stop()  # it records the read
    stack.platform.start()
    folder = tmp_path / "evidence"
    stack.cli("evidence", "export", "--from", "1h", "--output", folder, *words, key=root)
    again = stack.cli("evidence", "export", "--output", folder, *words, key=root, check=False)
    assert again.returncode == 2 and "must be a new one" in again.stderr

    status, text = verified(folder)
    assert status == 0 and "complete until the checkpoint of" in text, text
    assert "complete until the checkpoint of" in stack.cli("audit", "verify", "--file", folder).stdout
    resolutions = [json.loads(line) for line in (folder / "resolutions.ndjson").read_text().splitlines()]
    assert [(r["kind"], r["resolved_by"], r["resolution_note"]) for r in resolutions] == [(f"review.{k}", "carol", NOTE) for k in ("approved", "denied")]
    assert {p.stem for p in (folder / "proofs").iterdir()} == {r["event_id"] for r in resolutions}
    assert any("query action=issue_refund" in json.loads(line)["reason"] for line in (folder / "readers.ndjson").read_text().splitlines())
    sets = json.loads((folder / "policy-sets.json").read_text())
    assert sets and all(d["name"] for one in sets for d in one["documents"])
    texts = {p.read_text() for p in (folder / "policies").iterdir()}
    assert REVIEWED in texts
    page = (folder / "index.html").read_text()
    assert "<script" not in page and "&lt;script&gt;alert(&quot;1&quot;)" in page and "width=device-width" in page and "http" not in page.replace("http-equiv", "")
    for link in re.findall(r'href="?([^">]+)', page):
        assert (folder / link).exists(), link
    assert "carol" in page and "query action=issue_refund" in page

    policy = next(p for p in (folder / "policies").iterdir() if p.read_text() == REVIEWED)
    proof = next((folder / "proofs").iterdir())
    for path, before, after in ((policy, "human_review", "allow       "), (folder / "policy-sets.json", '"digest":"', '"digest":"0'), (folder / "resolutions.ndjson", '"carol"', '"mallo"'),
                                (folder / "readers.ndjson", "issue_refund", "issue_rofund"), (proof, '"seq":', '"seq":1'), (folder / "evidence.ndjson", '"carol"', '"mallo"')):
        kept = changed(path, before, after)
        status, text = verified(folder)
        assert status == 1 and "NOT COMPLETE" in text, path
        assert path.name == "evidence.ndjson" or f"altered: {path.relative_to(folder)}" in text, text
        path.write_text(kept)
    assert verified(folder)[0] == 0
    status, text = verified(folder, "--anchors", folder / "evidence.ndjson")
    assert status == 0 and "complete until the anchor of" in text


@pytest.mark.parametrize("name, content", [
    ("events.ndjson", '{"event_id":"1","kind":"decision"}\n'), ("events.csv", "event_id,kind\n1,decision\n"), ("noise", "\0\1\2"), ("keys.ndjson", '{"line":"key","node":"a","journal":"0"}\n'),
    ("folder", None)])
def test_what_is_no_evidence_is_refused_with_the_command_that_writes_it(own, tmp_path, name, content):
    file = tmp_path / name
    if content is None:
        file.mkdir()
    else:
        file.write_text(content)
    for words in (("verify", "--file", file), ("prove", "1", "--file", file)):
        done = own.cli("audit", *words, check=False)
        assert done.returncode == 2 and not done.stdout and f"{file}" in done.stderr and "writ evidence export" in done.stderr, done
        assert content is None or "writ audit export --evidence" in done.stderr


def test_a_terminal_gets_a_progress_bar_that_leaves_no_trace(own, tmp_path):
    file = tmp_path / "evidence.ndjson"
    own.cli("audit", "export", "--evidence", "--output", file, "--platform", own.platform.url, key=own.keys["root"])
    lines = file.read_text().splitlines(keepends=True)
    row = next(line for line in lines if line.startswith('{"line":"own"'))
    file.write_text("".join(lines[:1] + 3000 * [row] + lines[1:]))
    plain = own.cli("audit", "verify", "--file", file, check=False)
    assert not plain.stderr and "records" in plain.stdout
    parent, child = pty.openpty()
    process = subprocess.Popen([harness.BIN / "writ", "audit", "verify", "--file", file], stdout=child, stderr=child, env={"TERM": "xterm"})
    os.close(child)
    printed = b""
    try:
        while chunk := os.read(parent, 65536):
            printed += chunk
    except OSError:
        pass  # the other end is closed
    os.close(parent)
    assert process.wait() == plain.returncode
    assert re.search(rb"\r\[#* *\] +\d+ %  1024 lines", printed), printed
    left = [line.rpartition("\r")[2] for line in printed.decode().replace("\r\n", "\n").removesuffix("\n").split("\n")]
    assert left == plain.stdout.splitlines(), printed

"""Checkpoints of the audit trail in places outside the store: a file, and a bucket with object lock."""

import base64
import json
import shutil
import sqlite3
import subprocess

import harness
import pytest

GATEWAY = harness.TOP / "build" / "clients" / "versitygw" / "versitygw"
ACCESS, SECRET, EMPTY = "AKIAANCHOR", "secret-of-the-anchor", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


class Bucket:
    """versitygw with one bucket that has object lock."""

    def __init__(self, folder):
        (folder / "objects").mkdir(parents=True)
        (folder / "versions").mkdir()
        self.port = harness.free_port()
        self.log = (folder / "log").open("wb")
        command = [GATEWAY, "--port", f"127.0.0.1:{self.port}", "--access", ACCESS, "--secret", SECRET, "--region", "eu-1",
                   "posix", "--versioning-dir", folder / "versions", folder / "objects"]
        self.process = subprocess.Popen([str(word) for word in command], stdout=self.log, stderr=self.log)
        harness.eventually(lambda: self.call("PUT", "/audit", "x-amz-bucket-object-lock-enabled: true")[0] == 200, "the bucket is made")

    def call(self, method, path, *headers, body=None):
        words = ["curl", "-s", "--aws-sigv4", "aws:amz:eu-1:s3", "--user", f"{ACCESS}:{SECRET}", "-X", method, "-w", "\n%{http_code}"]
        for header in headers:
            words += ["-H", header]
        words += ["--data-binary", body] if body else ["-H", f"x-amz-content-sha256: {EMPTY}"]
        text, _, status = subprocess.run([*words, f"http://127.0.0.1:{self.port}{path}"], stdout=subprocess.PIPE, text=True, check=False).stdout.rpartition("\n")
        return int(status or 0), text

    def names(self):
        _, text = self.call("GET", "/audit?list-type=2")
        return [part.partition("</Key>")[0] for part in text.split("<Key>")[1:]]

    def close(self):
        self.process.kill()
        self.process.wait()
        self.log.close()


@pytest.fixture
def bucket(tmp_path):
    if not GATEWAY.exists() or shutil.which("curl") is None:
        pytest.skip("no versitygw in build/clients: ops/setup test installs it, where there is Go")
    made = Bucket(tmp_path / "bucket")
    yield made
    made.close()


def options_of(name, **values):
    return [word for key, value in values.items() for word in (f"--anchor.{name}.{key}", str(value))]


def checkpoint(note):
    """(origin, size) of a signed note."""
    origin, size, root, rest = note.split("\n", 3)
    assert len(base64.b64decode(root)) == 32 and rest.startswith(f"\n— {origin} ")
    return origin, int(size)


def decide(stack, count=1):
    with stack.at_engine() as agent:
        for _ in range(count):
            assert agent.post("/v1/agent/authorize", {"action": "read", "actor": "bot", "confidence": 1}).status == 200


def stored(stack):
    """The newest record of the engine's stream in the store."""
    with sqlite3.connect(stack.data / "platform.db") as store:
        return store.execute("SELECT max(seq) FROM records WHERE node IS NOT NULL").fetchone()[0]


def health(stack):
    with stack.at_platform(None) as wire:
        return wire.get("/healthz").json


def test_a_file_has_each_streams_newest_checkpoint(fleet, tmp_path):
    path = tmp_path / "anchors.jsonl"
    one = fleet(platform=options_of("disk", file=path, every="1s"))
    stack = one.stack
    stack.policy("base", "rules: [{id: all, agents: [bot], actions: [read], decision: allow}]")

    def lines_of():
        return [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")] if path.exists() else []

    def covers(seq):
        lines = lines_of()
        notes = [checkpoint(line["note"]) for line in lines]
        return notes and notes[-1][1] >= seq and [size for _, size in notes] == sorted(size for _, size in notes)

    for _ in range(2):
        decide(stack, 3)
        harness.eventually(lambda: stored(stack) and covers(stored(stack)), "the file has it")
        stack.platform.kill()
        with path.open("a") as file:
            file.write('{"anchored_at":"2026-')  # it ended in the middle of a line
        stack.platform.start()
    origins = {checkpoint(line["note"])[0] for line in lines_of()}
    assert len(origins) == 1
    before = path.read_bytes()
    path.unlink()
    path.mkdir()  # it cannot be written any more
    decide(stack)

    harness.eventually(lambda: health(stack)["checks"]["anchors"] != "ok", "the check fails")
    assert "disk: " in health(stack)["checks"]["anchors"] and "directory" in health(stack)["checks"]["anchors"].lower()
    assert health(stack)["anchors"][0]["waiting"] == 1 and health(stack)["anchors"][0]["behind_since"]
    path.rmdir()
    path.write_bytes(before)
    harness.eventually(lambda: health(stack)["checks"]["anchors"] == "ok" and covers(stored(stack)), "it goes on")
    anchor = health(stack)["anchors"][0]
    tree = anchor.pop("anchored")[0]
    assert anchor == {"behind_since": None, "error": "", "kind": "file", "name": "disk", "streams": 1, "waiting": 0}
    assert tree["anchored_seq"] == tree["checkpoint_seq"] == stored(stack) and tree["base"] == 1 and tree["anchored_at"]
    text = stack.cli("doctor", "--platform", stack.platform.url, "--engine", stack.engine.url, check=False).stdout
    assert f"disk (file) has {tree['node']}/{tree['journal']} up to record {tree['anchored_seq']} since {tree['anchored_at']}" in text, text


def test_a_bucket_keeps_what_no_one_can_change(fleet, bucket, tmp_path):
    secret = tmp_path / "anchor-secret"
    secret.write_text("another secret\n")
    secret.chmod(0o600)
    values = {"s3": f"http://127.0.0.1:{bucket.port}/audit/writ", "region": "eu-1", "access_key": ACCESS, "secret_file": secret, "every": "1s", "retain": "1h",
              "allow_private": "true", "allow_plaintext": "true"}
    one = fleet(platform=options_of("worm", **values))
    stack = one.stack
    stack.policy("base", "rules: [{id: all, agents: [bot], actions: [read], decision: allow}]")
    decide(stack, 2)
    harness.eventually(lambda: "HTTP 403" in str(health(stack)["checks"]["anchors"]), "the secret is refused")
    assert bucket.names() == []
    secret.write_text(SECRET + "\n")
    harness.eventually(lambda: health(stack)["checks"]["anchors"] == "ok" and bucket.names(), "the object is there")
    name = bucket.names()[-1]
    status, note = bucket.call("GET", f"/audit/{name.replace('%', '%25')}")
    origin, size = checkpoint(note)
    assert status == 200 and name.startswith("writ/" + origin) and size >= 2
    assert bucket.call("PUT", f"/audit/{name}", body="forged")[0] != 200
    assert bucket.call("DELETE", f"/audit/{name}")[0] != 204
    assert bucket.call("GET", f"/audit/{name}") == (200, note)
    count = len(bucket.names())
    decide(stack)
    harness.eventually(lambda: len(bucket.names()) > count, "the next checkpoint is an object of its own")

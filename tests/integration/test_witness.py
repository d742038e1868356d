"""A witness signs the checkpoints of each stream (C2SP tlog-witness), and names a second history."""

import base64
import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys

import harness
import pytest
from test_anchor import options_of
from witness import LiteWitness, Witness

VERIFY = harness.TOP / "ops/examples/evidence/verify.py"
LONG = os.environ.get("WRIT_LONG") == "1"


@pytest.fixture
def double():
    one = Witness()
    yield one
    one.close()


@pytest.fixture
def real(tmp_path):
    if LiteWitness.missing():
        pytest.skip(f"SKIP: {LiteWitness.missing()}")
    one = LiteWitness(tmp_path / "litewitness")
    yield one
    one.close()


class Witnessed:
    """A stack whose only anchor is the witness."""

    def __init__(self, stack, witness):
        self.stack, self.witness, self.asked = stack, witness, 0
        self.node = (stack.engine_data / "engine/node").read_text().strip()
        self.key = (stack.engine_data / "engine/evidence.pub").read_text().strip()
        self.origin = f"writ/{self.node}/0/1"
        stack.policy("base", "rules: [{id: all, agents: [\"*\"], actions: [\"get_*\"], decision: allow}]")
        stack.cli("engine", "trust", "--node", self.node, "--public-key", self.key, "--platform", stack.platform.url, key=stack.keys["root"])

    def add_log(self):
        self.witness.add_log(self.origin, base64.b64decode(self.key))

    def decide(self, count=1):
        with self.stack.at_engine() as wire:
            for _ in range(count):
                assert wire.post("/v1/agent/authorize", {"action": "get_x", "args": {"n": self.asked}}).status == 200
                self.asked += 1
        self.stack.wait_published()

    def health(self):
        with self.stack.at_platform(None) as wire:
            return wire.get("/healthz").json

    def anchor(self):
        return self.health()["anchors"][0]

    def is_witnessed(self):
        """All that is stored has a signature."""
        anchor = self.anchor()
        one = next(iter(anchor["anchored"]), None)
        return one and one["anchored_seq"] == one["checkpoint_seq"] >= self.asked and anchor["waiting"] == 0 and anchor

    def verify(self, *words, check=True):
        return self.stack.cli("audit", "verify", *words, "--platform", self.stack.platform.url, key=self.stack.keys["root"], check=check)


def set_aside(stack):
    """The newest record but one goes to quarantine, as one that the store cannot hold. It stays in the tree."""
    text = "CAST(event AS BLOB)" if stack.store_url is None else "convert_to(event, 'UTF8')"
    newest = "SELECT max(seq) - 1 FROM records WHERE node IS NOT NULL"
    sql = (f"INSERT INTO quarantine (created_at, reason, node, journal, epoch, seq, digest, event)"
           f" SELECT created_at, 'invalid', node, journal, epoch, seq, 'd', {text} FROM records WHERE seq = ({newest}) AND node IS NOT NULL;"
           f" DELETE FROM records WHERE seq = ({newest}) AND node IS NOT NULL")
    if stack.store_url is None:
        with sqlite3.connect(stack.data / "platform.db") as database:
            database.executescript(sql)
    else:
        subprocess.run(["psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", stack.store_url, "-c", sql], check=True)


def start(tmp_path, witness, **options):
    values = {"witness": witness.url, "witness_key": witness.vkey, "every": "1s", "allow_private": "true", "allow_plaintext": "true"}
    return harness.Stack(tmp_path / "stack", platform=options_of("one", **values), **options)


def verify_py(*words):
    done = subprocess.run([sys.executable, VERIFY, *words], capture_output=True, text=True, check=False)
    assert not done.stderr, done.stderr
    return done.returncode, done.stdout


@pytest.mark.parametrize("kind, store", [("double", "postgres"), ("real", "sqlite")])
def test_a_witness_signs_each_stream_and_an_auditor_sees_it(kind, store, request, tmp_path):
    witness = request.getfixturevalue(kind)
    url = request.getfixturevalue("postgres").new_database() if store == "postgres" else None
    random_ = random.Random(11)
    (tmp_path / "stack").mkdir()
    with start(tmp_path, witness, store_url=url) as stack:
        one = Witnessed(stack, witness)
        one.decide(3)
        harness.eventually(lambda: "does not know this origin" in one.anchor()["error"], "it does not know the stream")
        assert one.origin in one.anchor()["error"] and one.anchor()["waiting"] == 1
        one.add_log()
        harness.eventually(one.is_witnessed, "the first checkpoint is signed")
        for _ in range(30 if LONG else 2):
            one.decide(random_.randrange(1, 40))
            harness.eventually(one.is_witnessed, "the next one is signed")
        if kind == "double":
            witness.say = lambda text: (503, "later\n")
            one.decide(3)
            set_aside(stack)
            witness.say = None
            harness.eventually(one.is_witnessed, "the proof has the record in quarantine")
        anchor = one.anchor()
        assert (anchor["kind"], anchor["streams"], anchor["waiting"], anchor["behind_since"], anchor["error"]) == ("witness", 1, 0, None, "")
        assert anchor["anchored"][0]["node"] == one.node and anchor["anchored"][0]["base"] == 1 and anchor["anchored"][0]["anchored_at"]

        text = one.verify("--witness", witness.vkey).stdout
        assert "signed by the witness witness.example/w1 at" in text and "complete until the signature of the witness of" in text, text
        folder = tmp_path / "exported"
        stack.cli("evidence", "export", "--output", folder, "--platform", stack.platform.url, key=stack.keys["root"])
        status, text = verify_py(folder, "--witness", witness.vkey)
        assert status == 0 and "signed by the witness witness.example/w1 at" in text and "complete until the signature of the witness of" in text, text
        # kept elsewhere, it is an anchor
        assert "complete until the anchor of" in one.verify("--anchors", folder / "evidence.ndjson").stdout
        stranger = Witness()
        stranger.close()
        done = one.verify("--file", folder, "--witness", stranger.vkey, check=False)
        assert done.returncode == 1 and f"not witnessed: {one.node}/0 records 1 to" in done.stdout, done.stdout
        status, text = verify_py(folder, "--witness", stranger.vkey)
        assert status == 1 and f"not witnessed: {one.node}/0 1-" in text, text


def test_a_witness_that_fails_is_named_and_delays_nothing(double, tmp_path):
    stranger = Witness()
    stranger.close()
    (tmp_path / "stack").mkdir()
    with start(tmp_path, double) as stack:
        one = Witnessed(stack, double)
        one.add_log()
        answers = [("HTTP 503", lambda text: (503, "later\n")),
                   ("forged signature of witness.example/w1", lambda text: (200, double.cosign(text, stranger.key))),
                   ("an older database, or a second history", lambda text: (409, "999999\n")),
                   ("another size than it answered", lambda text: (409, "1\n") if len(double.asked) % 2 else (409, "2\n"))]
        for why, say in answers:
            double.say = say
            one.decide(2)
            harness.eventually(lambda: why in one.anchor()["error"], why)
            assert not double.sizes
        harness.eventually(lambda: "one: " in one.health()["checks"]["anchors"], "the check fails")
        assert one.anchor()["anchored"][0]["anchored_seq"] == 0 and one.anchor()["anchored"][0]["anchored_at"] is None
        done = one.verify("--witness", double.vkey, check=False)
        assert done.returncode == 1 and "not witnessed" in done.stdout
        double.say = None
        harness.eventually(lambda: one.is_witnessed() and one.health()["checks"]["anchors"] == "ok", "it goes on")
        one.verify("--witness", double.vkey)
        with sqlite3.connect(stack.data / "platform.db") as database:
            database.execute("UPDATE checkpoints SET note = substr(note, 1, instr(note, '— witness') - 1) WHERE instr(note, '— witness') > 0")
            database.execute("DELETE FROM anchors")  # an older copy of the store
        del double.asked[:]
        harness.eventually(lambda: len(double.asked) > 1 and one.is_witnessed(), "the witness names the size that it has")
        assert [head.split("\n")[0] == "old 0" for head in double.asked[:2]] == [True, False], double.asked


@pytest.mark.parametrize("kind", ["double", "real"])
def test_a_second_history_is_not_signed(kind, request, tmp_path):
    """The engine and the store are set back, and go on with other records under the same numbers."""
    witness = request.getfixturevalue(kind)
    (tmp_path / "stack").mkdir()
    with start(tmp_path, witness) as stack:
        one = Witnessed(stack, witness)
        one.add_log()
        one.decide(4)
        harness.eventually(one.is_witnessed, "the beginning is signed")
        stack.engine.stop()
        stack.platform.stop()
        folders = [stack.data] if stack.engine_data.is_relative_to(stack.data) else [stack.data, stack.engine_data]
        for at, folder in enumerate(folders):
            shutil.copytree(folder, tmp_path / f"kept{at}")
        stack.platform.start()
        stack.engine.start()
        one.decide(6)
        harness.eventually(one.is_witnessed, "the first history is signed")
        stack.engine.stop()
        stack.platform.stop()
        for at, folder in enumerate(folders):
            shutil.rmtree(folder)
            shutil.copytree(tmp_path / f"kept{at}", folder)
        stack.platform.start()
        stack.engine.start()
        one.decide(1)
        harness.eventually(lambda: "an older database, or a second history" in one.anchor()["error"], "the store has less than the witness")
        one.decide(30)
        harness.eventually(lambda: "are not those that it has signed" in one.anchor()["error"], "the proof is refused")
        file = tmp_path / "second.ndjson"
        stack.cli("audit", "export", "--evidence", "--output", file, "--platform", stack.platform.url, key=stack.keys["root"])
        status, text = verify_py(file, "--witness", witness.vkey)
        assert status == 0, text
        record = json.loads(one.verify("--json", "--witness", witness.vkey).stdout.splitlines()[0])
        assert record["witnesses"][0]["until"] < record["proved_until"] - 30, record

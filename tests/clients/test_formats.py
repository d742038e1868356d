"""Messages about reviews, held against the formats that others have published: Adaptive Cards by Microsoft's own library,
Slack's blocks by Slack's own types, signatures by a library of Standard Webhooks.

The libraries are in build/clients/formats, which ops/setup makes.
"""

import copy
import json
import pathlib
import shutil
import subprocess
import sys

import pytest

import node

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tests" / "e2e"))

import harness  # noqa: E402
import receiver  # noqa: E402

TOOLS = TOP / "build" / "clients" / "formats"
POLICY = """
rules:
  - {id: all, actions: ["*"], decision: human_review, review: {approvals: 2, notify: [slack, teams, webhook]}}
"""

pytestmark = [pytest.mark.skipif(not (TOOLS / "pins").exists(), reason="SKIP: build/clients/formats is missing; run ops/setup test"),
              pytest.mark.skipif(node.version() < 20, reason="SKIP: the libraries need Node.js 20 or newer")]


@pytest.fixture(scope="module")
def messages(tmp_path_factory):
    """Every kind of message, of each kind of channel."""
    folder = tmp_path_factory.mktemp("formats")
    secret = folder / "secret"
    secret.write_text(receiver.SECRET + "\n")
    secret.chmod(0o600)
    with receiver.Receiver() as server:
        options = ["--public_url", "https://writ.example"]
        for kind in ("slack", "teams", "webhook"):
            options += [f"--notify.{kind}.kind", kind, f"--notify.{kind}.url", f"{server.url}/{kind}", f"--notify.{kind}.allow_private", "true",
                        f"--notify.{kind}.allow_plaintext", "true"]
        with harness.Stack(folder, platform=[*options, "--notify.webhook.secret_file", str(secret)]) as stack:
            keys = [stack.key(name, ["reviewer"], owner=name, reviewers=["*"]) for name in ("carol", "rita")]
            stack.policy("base", POLICY)
            with stack.at_engine() as agent:
                asked = {"action": "pay <b>*x*</b>", "actor": "bot", "resource": {"type": "order", "id": "\u202e1"}, "acting_for": "dave", "confidence": 1}
                review = agent.post("/v1/agent/authorize", asked).json["review_id"]
                for key in keys:
                    with stack.at_engine(key) as wire:
                        assert wire.post(f"/v1/queue/{review}/approve", {"note": "so"}).status == 200
                assert agent.post(f"/v1/queue/{review}/redeem", asked).status == 200
            harness.eventually(lambda: len(server.messages) == 12, "four messages on each channel")
    return {kind: server.at(f"/{kind}") for kind in ("slack", "teams", "webhook")}


def check(given, folder):
    shutil.copy(TOP / "tests" / "clients" / "formats" / "check.js", folder)
    if not (folder / "node_modules").exists():
        (folder / "node_modules").symlink_to(TOOLS / "node_modules")
    done = subprocess.run(["node", "check.js"], input=json.dumps(given), capture_output=True, text=True, cwd=folder, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def as_given(messages):
    return {"slack": [message.json for message in messages["slack"][:1]], "teams": [message.json for message in messages["teams"]],
            "webhook": [{"secret": receiver.SECRET, "headers": message.headers, "body": message.body.decode()} for message in messages["webhook"]]}


def test_messages_fit_the_published_formats(messages, tmp_path):
    found = check(as_given(messages), tmp_path)
    assert found == {"slack": [[]], "teams": [[]] * 4, "webhook": [[]] * 4}


def test_what_does_not_fit_is_seen(messages, tmp_path):
    given = copy.deepcopy(as_given(messages))
    given["slack"][0]["blocks"][1]["elements"][0]["type"] = "rich_txt"
    given["teams"] = given["teams"][:1]
    given["teams"][0]["attachments"][0]["content"]["body"][0]["size"] = "Huge"
    given["webhook"] = given["webhook"][:1]
    given["webhook"][0]["body"] += " "
    found = check(given, tmp_path)
    assert all(len(wrong[0]) > 0 for wrong in found.values()), found

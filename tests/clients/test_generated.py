"""Clients that generators make of schemas/openapi.engine.yaml go through the README's story against the real programs.

The generators are in build/clients/generated, which ops/setup makes.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

import node

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tests" / "e2e"))

import harness  # noqa: E402

DOCUMENT, STORY, TOOLS = TOP / "schemas" / "openapi.engine.yaml", TOP / "tests" / "clients" / "generated", TOP / "build" / "clients" / "generated"
POLICY = """
roles: {finance: [carol]}
rules:
  - {id: small, agents: [invoice_bot], actions: [issue_refund], when: args.amount <= 500, decision: allow,
     limit: {per: actor, window: 1h, count: 30, sum: args.amount, max: 5000}}
  - {id: large, actions: [issue_refund], when: args.amount > 500, decision: human_review, reason: Refunds over 500 need finance., review: {by: [finance]}}
  - {id: never-drop, actions: ["drop_*"], decision: deny, reason: Nothing is dropped here.}
  - {id: sandbox, agents: ["*"], actions: [write_orders], decision: compute,
     compute: {tool: write_file, args: {path: /sandbox/orders, sandboxed: true}}}
"""
TOLD = {"small": "allow", "again": True, "large": "human_review", "listed": True, "approved": "approved", "waited": "approved", "redeemed": "allow",
        "denied": "deny:never-drop", "safe": ["write_file", True], "wrong": ["out_of_range", "/confidence"], "batch": ["allow", "deny"],
        "evaluated": True, "healthy": "writ-engine"}

pytestmark = pytest.mark.skipif(not (TOOLS / "pins").exists(), reason="SKIP: build/clients/generated is missing; run ops/setup test")


@pytest.fixture(scope="module")
def stack():
    with harness.Stack() as running:
        running.policy("payments", POLICY)
        running.environment = {**os.environ, "STORY_URL": running.engine.url,
                               "STORY_AGENT": running.key("invoice_bot", ["agent"], users=["*"], wait=False),
                               "STORY_CAROL": running.key("reviewers", ["reviewer"], owner="carol", reviewers=["carol"])}
        yield running


def output(*command, **options):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=300, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.skipif(node.version() < 20, reason="SKIP: the generators need Node.js 20 or newer")
def test_the_story_with_a_typescript_client(stack, tmp_path):
    for name in ("package.json", "tsconfig.json", "story.ts"):
        shutil.copy(STORY / name, tmp_path)
    (tmp_path / "node_modules").symlink_to(TOOLS / "node_modules")
    bin = TOOLS / "node_modules" / ".bin"
    output(bin / "openapi-typescript", DOCUMENT, "-o", tmp_path / "engine.ts")
    source = (STORY / "story.ts").read_text()
    assert " as " not in source and "any" not in source.split() and "@ts-" not in source
    output(bin / "tsc", "-p", tmp_path)
    assert json.loads(output("node", tmp_path / "out" / "story.js", env=stack.environment)) == TOLD


def test_the_story_with_a_python_client(stack, tmp_path):
    bin = TOOLS / "python" / "bin"
    told = output(bin / "openapi-python-client", "generate", "--path", DOCUMENT, "--meta", "none", "--config", STORY / "generator.yaml", "--output-path", tmp_path / "writ_engine_client")
    assert "Unable" not in told and "WARNING" not in told and "Warning" not in told, told
    assert json.loads(output(bin / "python", STORY / "story.py", env={**stack.environment, "PYTHONPATH": str(tmp_path)})) == TOLD

"""`writ` against the running programs: each command's words, its exit status, what it prints."""

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import termios

import pytest

import harness

ALLOW = 'rules:\n  - {id: reads, agents: ["*"], users: ["*"], actions: ["get_*"], decision: allow}\n'
DENY = 'rules:\n  - {id: reads, actions: ["get_*"], decision: deny, reason: Not today.}\n'


@pytest.fixture
def writ(tenant):
    """Runs a command as the test's tenant."""
    stack = tenant.stack

    def run(*words, key=None, check=None, **options):
        done = stack.cli(*words, "--engine", stack.engine.url, "--platform", stack.platform.url, check=False,
                         key=key or tenant.admin, **options)
        if check is not None:
            assert done.returncode == check, (done.returncode, done.stdout, done.stderr)
        return done

    run.tenant = tenant
    return run


def test_policy_put_get_list_versions_rollback_and_delete(writ, tmp_path):
    file = tmp_path / "base.yaml"
    file.write_text(ALLOW)
    writ("policy", "put", file, check=0)
    assert writ("policy", "get", "base", check=0).stdout.strip() == ALLOW.strip()
    assert "base" in writ("policy", "list", check=0).stdout
    writ("policy", "put", "base", "-", stdin=DENY, check=0)
    listed = json.loads(writ("policy", "versions", "base", "--json", check=0).stdout)
    assert len(listed["versions"]) == 2
    writ("policy", "rollback", "base", "1", check=0)
    assert json.loads(writ("policy", "list", "--json", check=0).stdout)["policies"][0]["version"] == 3
    writ("policy", "put", file, "--new", check=1)
    writ("policy", "delete", "base", check=0)
    gone = writ("policy", "get", "base", check=1)
    assert gone.stderr and not gone.stdout


def test_a_bad_document_is_told_with_line_and_column(writ, tmp_path):
    file = tmp_path / "bad.yaml"
    file.write_text("rules:\n  - {id: a, agents: ['*'], actions: [x], decision: alow}\n")
    for words in (("policy", "put", file), ("policy", "check", file)):
        done = writ(*words, check=1)
        assert "2:" in done.stderr + done.stdout and "alow" in done.stderr + done.stdout, done


def test_check_and_test_need_no_platform(tmp_path, stack):
    examples = sorted((harness.TOP / "ops" / "examples").glob("*.yaml"))
    assert stack.cli("policy", "check", *examples).returncode == 0
    assert stack.cli("policy", "test", *examples).returncode == 0
    file = tmp_path / "wrong.yaml"
    file.write_text(ALLOW + "tests:\n  - {request: {actor: b, action: get_x}, expect: deny}\n")
    assert stack.cli("policy", "test", file, check=False).returncode == 1


def test_authorize_answers_by_its_exit_status(writ):
    tenant = writ.tenant
    tenant.policy(ALLOW + "  - {id: r, actions: [pay], decision: human_review}\n")
    done = writ("authorize", "get_x", "--actor", "bot", "--args", '{"a": 1}', "--trace-id", "cli.1", key=tenant.agent, check=0)
    assert "allow" in done.stdout
    assert "deny" in writ("authorize", "put_x", key=tenant.agent, check=1).stdout
    assert "human_review" in writ("authorize", "pay", key=tenant.agent, check=1).stdout
    answer = json.loads(writ("authorize", "--tool", "get_x", "--json", key=tenant.agent, check=0).stdout)
    assert answer["tool"] == "get_x" and answer["decision"] == "allow"
    assert json.loads(writ("authorize", "get_x", "--user", "carol", "--json", key=tenant.agent, check=0).stdout)["allowed"] is True
    refused = writ("authorize", "get_x", "--confidence", "7", key=tenant.agent, check=2)
    assert "confidence" in refused.stderr


def test_explain_shows_every_rule(writ):
    writ.tenant.policy(ALLOW + "  - {id: other, actions: [other], decision: deny}\n")
    done = writ("policy", "explain", "get_x", "--actor", "bot", check=0)
    assert "reads" in done.stdout and "other" in done.stdout


def test_audit_query_and_trace(writ):
    tenant = writ.tenant
    answer = tenant.ask("get_x", actor="cli-bot")
    tenant.trace(answer["trace_id"])
    table = writ("audit", "query", "--actor", "cli-bot", key=tenant.auditor, check=0).stdout
    assert "get_x" in table and "deny" in table
    events = json.loads(writ("audit", "query", "--actor", "cli-bot", "--json", key=tenant.auditor, check=0).stdout)["events"]
    assert [event["trace_id"] for event in events] == [answer["trace_id"]]
    trace = writ("audit", "trace", answer["trace_id"], key=tenant.auditor, check=0).stdout
    assert "get_x" in trace and "deny" in trace and answer["output_hash"] in trace
    assert writ("audit", "query", "--from", "1h", "--limit", "3", key=tenant.auditor, check=0).stdout


def test_key_create_list_rotate_and_revoke(writ):
    tenant = writ.tenant
    made = json.loads(writ("key", "create", "--name", "cli", "--owner", "me", "--roles", "agent", "--json", check=0).stdout)
    bare = writ("key", "create", "--name", "cli2", "--owner", "me", "--roles", "agent", check=0).stdout.strip()
    assert bare.startswith("wk_") and len(bare) == 80
    listed = writ("key", "list", check=0).stdout
    assert made["id"] in listed and made["key"] not in listed
    rotated = json.loads(writ("key", "rotate", made["id"], "--overlap", "1h", "--json", check=0).stdout)
    tenant.stack.wait_followed()
    assert writ("authorize", "get_x", key=made["key"]).returncode == writ("authorize", "get_x", key=rotated["key"]).returncode == 1
    assert json.loads(writ("key", "revoke", rotated["id"], "--json", check=0).stdout)["revoked"] is True
    assert "401" in writ("authorize", "get_x", key=rotated["key"], check=1).stderr or \
        "credential" in writ("authorize", "get_x", key=rotated["key"], check=1).stderr


def test_doctor_finds_all_well_and_says_what_is_not(writ):
    done = writ("doctor", check=0)
    assert done.stdout
    stack = writ.tenant.stack
    nowhere = f"http://127.0.0.1:{harness.free_port()}"
    done = stack.cli("doctor", "--engine", nowhere, "--platform", stack.platform.url, check=False, key=writ.tenant.admin)
    assert done.returncode != 0 and nowhere in done.stdout + done.stderr


@pytest.mark.parametrize("words, status", [
    ((), 2), (("nonsense",), 2), (("policy", "nonsense"), 2), (("policy", "get"), 2), (("authorize", "x", "--colour"), 2),
    (("--help",), 0), (("policy", "--help"), 0), (("policy", "put", "--help"), 0), (("--version",), 0), (("docs", "config"), 0),
])
def test_wrong_words_are_2_and_help_is_0(stack, words, status):
    done = stack.cli(*words, check=False)
    assert done.returncode == status, done
    assert (done.stdout if status == 0 else done.stderr)


def test_who_cannot_be_reached_is_3(stack):
    done = stack.cli("policy", "list", "--platform", f"http://127.0.0.1:{harness.free_port()}", check=False, key=stack.keys["admin"])
    assert done.returncode == 3 and done.stderr


def test_a_key_is_refused_on_the_command_line_and_taken_from_a_file(stack, tmp_path):
    file = tmp_path / "key"
    file.write_text(stack.keys["admin"] + "\n")
    file.chmod(0o600)
    assert stack.cli("policy", "list", "--platform", stack.platform.url, "--key-file", file).returncode == 0
    assert stack.cli("policy", "list", "--key", stack.keys["admin"], check=False).returncode == 2
    file.chmod(0o644)
    assert stack.cli("policy", "list", "--platform", stack.platform.url, "--key-file", file, check=False).returncode != 0


def test_a_terminal_gets_a_table_that_fits(writ):
    tenant = writ.tenant
    tenant.policy(ALLOW)
    trace = tenant.ask("get_something_with_a_rather_long_name", actor="bot")["trace_id"]
    tenant.trace(trace)
    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 120, 0, 0))
    process = subprocess.Popen([harness.BIN / "writ", "audit", "query", "--platform", tenant.stack.platform.url], stdout=child,
                               stderr=subprocess.PIPE, env={"WRIT_KEY": tenant.auditor, "TERM": "xterm"})
    os.close(child)
    printed = b""
    try:
        while chunk := os.read(parent, 65536):
            printed += chunk
    except OSError:
        pass
    assert process.wait() == 0, process.stderr.read()
    process.stderr.close()
    os.close(parent)
    plain = re.sub(r"\x1b\[[0-9;]*m", "", printed.decode())
    assert "allow" in plain and "…" in plain
    assert max(len(line) for line in plain.splitlines()) <= 120

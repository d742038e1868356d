"""The hook of coding agents with a real engine: what it asks, and its answers to each agent, byte for byte."""

import hashlib
import json
import subprocess

import pytest

import conftest
import harness
import hooks
from hooks import AGENTS, ASIDE, SHELL, call, compact, grant, rewrite

POLICY = """
rules:
  - {id: look, agents: ["*"], actions: ["*"], when: 'has(args.command) && type(args.command) == string && args.command.startsWith("ls")', decision: allow}
  - {id: never, actions: ["*"], when: 'has(args.command) && type(args.command) == string && args.command.startsWith("rm")', decision: deny, reason: 'Nothing is "removed" here.'}
  - {id: people, actions: ["*"], when: 'has(args.command) && type(args.command) == string && args.command.startsWith("git push")', decision: human_review, reason: A person looks at a push.}
  - {id: files, agents: ["*"], actions: [Write, put], decision: allow}
  - {id: checked, actions: [Write], when: 'args.file_path == "/srv/checked"', decision: human_review}
  - id: elsewhere
    agents: ["*"]
    actions: [Write]
    when: args.file_path == "/srv/moved"
    decision: compute
    compute: {tool: Write, args: {file_path: /srv/sandbox, content: "${args.content}"}}
  - id: emptied
    agents: ["*"]
    actions: [Write]
    when: args.file_path == "/srv/emptied"
    decision: compute
    compute: {tool: Write, args: {file_path: /srv/sandbox, content: ""}}
  - id: other
    agents: ["*"]
    actions: [Edit]
    decision: compute
    compute: {tool: Write, args: {file_path: /srv/sandbox}}
""" + "".join(f"""
  - {{id: safe-{tool}, agents: ["*"], actions: [{tool}], when: 'has(args.command) && args.command == "make"', decision: compute, compute: {{tool: {tool}, args: {{command: make -n}}}}}}
""" for tool in sorted(set(SHELL.values())))


class Coder:
    """A tenant whose agent is a coding agent, and a person who looks at its calls."""

    def __init__(self, tenant, folder):
        self.tenant = tenant
        tenant.policy(POLICY)
        key = tenant.key("coder", ["agent"], actors=["coder"], wait=False)
        self.reviewer = tenant.key("rita", ["reviewer"], reviewers=["*"])
        self.hook = hooks.Hook(tenant.stack.engine.url, key, folder)
        self.ask, self.start, self.end = self.hook.ask, self.hook.start, self.hook.end

    def vote(self, review, word, **body):
        with self.tenant.stack.at_engine(self.reviewer) as wire:
            reply = wire.post(f"/v1/queue/{review}/{word}", body)
        assert reply.status == 200, reply

    def pending(self):
        with self.tenant.stack.at_engine(self.reviewer) as wire:
            return wire.get("/v1/queue/pending").json["items"]

    def wait_pending(self):
        return harness.eventually(self.pending, "a review waits")[0]

    def leave(self, agent, asked):
        """The review of a call whose hook was ended while it waited."""
        waits = self.start(agent, asked)
        review = self.wait_pending()
        waits.terminate()
        self.end(waits).reason(agent)
        return review


@pytest.fixture(scope="module")
def coder(stack, tmp_path_factory):


    return Coder(conftest.Tenant(stack, "coders"), tmp_path_factory.mktemp("hook"))


def decided(coder, answer_reason):
    """The event of the decision that a reason names."""
    trace = answer_reason.rsplit("trace ", 1)[1].rstrip(")")
    return coder.tenant.trace(trace)[0]


# ---- verdicts ----


@pytest.mark.parametrize("agent", AGENTS)
def test_an_allow_leaves_the_call_to_the_users_own_settings(coder, agent):
    assert coder.ask(agent, call(agent)).is_allow()
    if agent in hooks.CAN_GRANT:
        granted = coder.ask(agent, call(agent), "--grant")
        assert (granted.status, granted.out, granted.err) == (0, grant(agent), "")
    else:
        assert "cannot grant" in coder.ask(agent, call(agent), "--grant").reason(agent)


@pytest.mark.parametrize("agent", AGENTS)
def test_a_denial_has_three_forms_and_its_request_is_the_call(coder, agent):
    aside = ASIDE.get(agent, {})
    answer = coder.ask(agent, call(agent, args={"command": "rm -r /", **aside}))
    reason = answer.reason(agent)
    assert reason.startswith('Nothing is "removed" here. (denied by deny:never; trace '), reason
    event = decided(coder, reason)
    assert event["action"] == SHELL[agent] and event["args"] == {"command": "rm -r /"} and event["actor"] == "coder"
    assert event["context"] == {"agent": agent, "cwd": "/srv/project"}
    assert event["conversation_id"] == "session-1"
    assert event.get("tool_call_id") == (None if agent in ("gemini", "copilot") else "call-1")


def test_what_no_rule_permits_is_denied(coder):
    reason = coder.ask("claude", call("claude", tool="mcp__bank__pay", args={"description": "bound, as every member of an MCP tool"})).reason("claude")
    assert "default:deny" in reason and decided(coder, reason)["args"] == {"description": "bound, as every member of an MCP tool"}


@pytest.mark.parametrize("agent", AGENTS)
def test_a_safe_call_replaces_the_input(coder, agent):
    aside = ASIDE.get(agent, {})
    asked = call(agent, args={"command": "make", **aside})
    if agent in hooks.NEEDS_GRANT:
        reason = coder.ask(agent, asked).reason(agent)
        assert f'Permitted is: {SHELL[agent]} {{"command":"make -n"}}' in reason and "--grant-compute" in reason
    answer = coder.ask(agent, asked, "--grant-compute")
    assert (answer.status, answer.out, answer.err) == (0, rewrite(agent, {"command": "make -n", **aside}), "")


def test_a_safe_call_of_another_tool_is_denied_and_named(coder):
    answer = coder.ask("claude", call("claude", tool="Edit", args={"file_path": "/srv/a", "old_string": "a", "new_string": "b"}))
    assert 'Permitted is: Write {"file_path":"/srv/sandbox"' in answer.reason("claude") and "another tool" in answer.err


def test_codex_can_change_its_command_alone(coder):
    asked = call("codex", args={"command": "make", "workdir": "/srv"})
    assert "can only change an input that is command alone" in coder.ask("codex", asked, "--grant-compute").reason("codex")


# ---- people ----


@pytest.mark.parametrize("agent", AGENTS)
def test_a_call_waits_for_a_person_and_goes_on(coder, agent):
    asked = call(agent, args={"command": f"git push {agent}"})
    waits = coder.start(agent, asked)
    review = coder.wait_pending()
    assert review["args"] == {"command": f"git push {agent}"} and review["actor"] == "coder"
    coder.vote(review["id"], "approve", resolved_by="rita")
    assert coder.end(waits).is_allow()

    waits = coder.start(agent, asked)  # an approval is good for one call
    review = coder.wait_pending()
    coder.vote(review["id"], "deny", resolved_by="rita", note="Not on a Friday.")
    assert coder.end(waits).reason(agent) == f"rita denied this call: Not on a Friday. (review {review['id']})"


@pytest.mark.parametrize("agent", AGENTS)
def test_the_same_call_again_finds_its_review(coder, agent):
    def asked(number):
        aside = {name: f"{value}{number}" if isinstance(value, str) else value + number for name, value in ASIDE.get(agent, {}).items()}
        return call(agent, args={"command": f"git push again {agent}", **aside}, call_id=f"call-{number}", session=f"session-{number}")

    review = coder.leave(agent, asked(1))
    waits = coder.start(agent, asked(2))
    coder.vote(review["id"], "approve", resolved_by="rita")
    assert coder.end(waits).is_allow()

    review = coder.leave(agent, asked(3))
    coder.vote(review["id"], "approve", resolved_by="rita")
    assert coder.ask(agent, asked(4)).is_allow() and coder.pending() == []


def test_the_approvers_note_reaches_the_model_where_the_agent_takes_it_along(coder):
    waits = coder.start("claude", call("claude", args={"command": "git push noted"}))
    coder.vote(coder.wait_pending()["id"], "approve", resolved_by="rita", note="Only this once.")
    answer = coder.end(waits)
    assert (answer.status, answer.err) == (0, "")
    assert answer.out == compact({"hookSpecificOutput": {"hookEventName": "PreToolUse", "additionalContext": "rita approved this call: Only this once."}})


def test_an_approval_is_bound_to_the_folder_and_the_agent(coder):
    asked = {"command": "git push bound"}
    review = coder.leave("claude", call("claude", args=asked))
    coder.vote(review["id"], "approve", resolved_by="rita")
    for agent, other in (("claude", call("claude", args=asked, cwd="/srv/other")), ("codex", call("codex", args=asked))):
        waiting = coder.leave(agent, other)
        assert waiting["id"] != review["id"]
        coder.vote(waiting["id"], "deny", resolved_by="rita")
    assert coder.ask("claude", call("claude", args=asked)).is_allow()


# ---- large inputs ----


def projection(text, head=1024):
    return {"bytes": len(text.encode()), "head": text.encode()[:head].decode(errors="ignore"), "sha256": hashlib.sha256(text.encode()).hexdigest()}


def test_five_megabytes_are_asked_about_by_their_digest(coder):
    text = "é" * 2_500_000
    assert coder.ask("claude", call("claude", tool="Write", args={"file_path": "/srv/a", "content": text})).is_allow()
    reason = coder.ask("claude", call("claude", tool="Other", args={"file_path": "/srv/a", "content": text})).reason("claude")
    event = decided(coder, reason)
    assert event["args"] == {"file_path": "/srv/a", "content": projection(text)} and event["context"]["projected"] == ["/content"]


def test_a_short_text_is_asked_about_as_it_is(coder):
    for size, projected in ((4096, False), (4097, True)):
        reason = coder.ask("claude", call("claude", tool="Other", args={"a/b": [{"c~d": "x" * size}]})).reason("claude")
        event = decided(coder, reason)
        assert event["args"] == {"a/b": [{"c~d": projection("x" * size) if projected else "x" * size}]}
        assert event["context"].get("projected") == (["/a~1b/0/c~0d"] if projected else None)


@pytest.mark.parametrize("args, place", [({f"m{i}": "y" * 4000 for i in range(100)}, "/m0"), ({"list": list(range(100_000))}, "")], ids=["texts", "numbers"])
def test_nothing_is_refused_for_its_size(coder, args, place):
    assert coder.ask("claude", call("claude", tool="put", args=args)).is_allow()
    event = decided(coder, coder.ask("claude", call("claude", tool="Other", args=args)).reason("claude"))
    assert place in event["context"]["projected"]
    if place:
        assert event["args"]["m0"] == projection("y" * 4000, 64)
    else:
        text = compact(args)
        assert event["args"] == {**projection(text), "json": True}


def test_an_approval_of_a_large_text_is_not_one_of_another(coder):
    text = "z" * 10_000
    asked = call("claude", tool="Write", args={"file_path": "/srv/checked", "content": text})
    review = coder.leave("claude", asked)
    assert review["args"]["content"] == projection(text)
    coder.vote(review["id"], "approve", resolved_by="rita")
    for content in (text[:-1] + "a", projection(text)):  # the same beginning; what the engine saw, as the call's own input
        waiting = coder.leave("claude", call("claude", tool="Write", args={"file_path": "/srv/checked", "content": content}))
        assert waiting["id"] != review["id"]
        coder.vote(waiting["id"], "deny", resolved_by="rita")
    assert coder.ask("claude", asked).is_allow()


def test_a_safe_call_gets_the_original_text_back(coder):
    text = 'quoted "é" \\ and\nlong ' * 1000
    answer = coder.ask("claude", call("claude", tool="Write", args={"file_path": "/srv/moved", "content": text}))
    assert answer.status == 0 and json.loads(answer.out)["hookSpecificOutput"]["updatedInput"] == {"file_path": "/srv/sandbox", "content": text}
    answer = coder.ask("claude", call("claude", tool="Write", args={"file_path": "/srv/emptied", "content": text}))
    assert "of which the engine has seen the digest only" in answer.reason("claude")


def test_the_hook_is_also_a_command_of_writ(coder):
    command = coder.hook.command("gemini")
    for arguments, text in ((["hook", *command[1:]], call("gemini")), (["hook", "gemini"], {})):
        done = subprocess.run([harness.BIN / "writ", *arguments], input=json.dumps(text).encode(), capture_output=True, env=hooks.environment())
        answer = hooks.Answer(done.returncode, done.stdout, done.stderr)
        assert answer.is_allow() if text else answer.reason("gemini")



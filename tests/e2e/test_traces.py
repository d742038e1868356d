"""One trace id from the caller's header to answer, log, event and span; and spans that are in nobody's way."""

import json
import os
import re
import secrets
import subprocess
import time

import pytest
from collector import Collector
from conftest import BASE_POLICY
from harness import BIN, PATIENCE, REACTORS, Stack, eventually
from wire import Wire

AGENT, TOOL, USER = "/v1/agent/authorize", "/api/v1/authorize", "/v1/authorize"
PARENT = "00f067aa0ba902b7"


def fresh_trace():
    return secrets.token_hex(16)


def traceparent(trace, flags="01"):
    return {"traceparent": f"00-{trace}-{PARENT}-{flags}"}


@pytest.fixture(scope="module")
def collector():
    with Collector() as running:
        yield running


@pytest.fixture(scope="module")
def traced(collector, tmp_path_factory):
    """A stack that sends every sampled span, and logs every decision."""
    with Stack(tmp_path_factory.mktemp("traced"),
               engine=["--otlp.url", collector.url, "--otlp.sample", "1", "--log.level", "debug"]) as running:
        running.policy("base", BASE_POLICY)
        yield running
        running.engine.stop()
        running.platform.stop()


@pytest.fixture
def taking(collector, traced):
    """The collector after a test that broke it: it takes spans again."""
    yield collector
    collector.stop()
    collector.mode = 200
    collector.start()


def ask(stack, route, body, headers=None, query="", key="agent"):
    with stack.at_engine(key) as wire:
        return wire.post(route + query, body, headers=headers)


def span_of(collector, trace_id):
    """The one span whose decision has this trace id."""
    def found():
        return [span for span in collector.spans() if span["attributes"].get("writ.trace_id") == trace_id]
    spans = eventually(found, f"a span of {trace_id}")
    assert len(spans) == 1
    return spans[0]


def logged(stack, trace_id):
    lines = [json.loads(line) for line in stack.engine.log.read_text().splitlines() if trace_id in line]
    return [line for line in lines if line["event"] == "decided"]


# ---- one id everywhere ----


def test_a_callers_trace_id_is_in_answer_log_event_and_span(traced, collector):
    trace = fresh_trace()
    reply = ask(traced, AGENT, {"action": "get_x"}, traceparent(trace)).json
    assert reply["trace_id"] == trace
    event, = traced.trace(trace)
    assert (event["trace_id"], event["request_id"]) == (trace, reply["request_id"])
    line, = logged(traced, trace)
    assert (line["trace_id"], line["request_id"], line["decision"], line["rule"]) == \
        (trace, reply["request_id"], "allow", "allow:reads")
    span = span_of(collector, trace)
    assert (span["traceId"], span["parentSpanId"]) == (trace, PARENT)


def test_a_span_has_the_ids_of_its_tool_call(traced, collector):
    reply = ask(traced, AGENT, {"action": "get_x", "tool_call_id": "call_7", "conversation_id": "thread-7"}).json
    attributes = span_of(collector, reply["trace_id"])["attributes"]
    assert (attributes["gen_ai.tool.call.id"], attributes["gen_ai.conversation.id"]) == ("call_7", "thread-7")


def test_without_a_header_our_own_trace_id_is_everywhere(traced, collector):
    reply = ask(traced, AGENT, {"action": "get_x"}).json
    trace = reply["trace_id"]
    assert re.fullmatch(r"[0-9a-f]{32}", trace)
    assert traced.trace(trace)[0]["trace_id"] == trace
    assert len(logged(traced, trace)) == 1
    span = span_of(collector, trace)
    assert span["traceId"] == trace and "parentSpanId" not in span


@pytest.mark.parametrize("bad", ["00-{}-00f067aa0ba902b7-01-extra", "00-{}-0000000000000000-01", "ff-{}-00f067aa0ba902b7-01", "{}", ""])
def test_a_bad_header_is_ignored_and_never_an_error(traced, collector, bad):
    trace = fresh_trace()
    reply = ask(traced, AGENT, {"action": "get_x"}, {"traceparent": bad.format(trace)})
    assert reply.status == 200
    assert reply.json["trace_id"] != trace
    assert "parentSpanId" not in span_of(collector, reply.json["trace_id"])


def test_two_headers_are_none(traced):
    trace, other = fresh_trace(), fresh_trace()
    for second in (other, trace):
        with traced.at_engine() as wire:
            head, body = wire.encode("POST", AGENT, {"action": "get_x"}, traceparent(trace)).split(b"\r\n\r\n", 1)
            wire.send(head + f"\r\ntraceparent: 00-{second}-{PARENT}-01".encode() + b"\r\n\r\n" + body)
            reply = wire.read_reply()
        assert reply.status == 200 and reply.json["trace_id"] not in (trace, other)


def test_a_later_version_is_read_by_what_is_known_of_it(traced, collector):
    trace = fresh_trace()
    reply = ask(traced, AGENT, {"action": "get_x"}, {"traceparent": f"cc-{trace}-{PARENT}-01-and.more"})
    assert reply.json["trace_id"] == trace
    assert span_of(collector, trace)["parentSpanId"] == PARENT


def test_a_trace_id_in_the_body_wins_and_the_span_stays_in_the_callers_trace(traced, collector):
    trace, mine = fresh_trace(), f"order-{secrets.token_hex(4)}"
    reply = ask(traced, AGENT, {"action": "get_x", "trace_id": mine}, traceparent(trace)).json
    assert reply["trace_id"] == mine
    assert traced.trace(mine)[0]["trace_id"] == mine
    span = span_of(collector, mine)
    assert (span["traceId"], span["parentSpanId"]) == (trace, PARENT)


def test_a_callers_trace_that_is_not_sampled_leaves_no_span(traced, collector):
    silent, told = fresh_trace(), fresh_trace()
    assert ask(traced, AGENT, {"action": "get_x"}, traceparent(silent, "00")).json["trace_id"] == silent
    ask(traced, AGENT, {"action": "get_x", "trace_id": f"not.w3c.{silent}"})  # nor one that no span can name
    ask(traced, AGENT, {"action": "get_x"}, traceparent(told))
    span_of(collector, told)
    traced.trace(silent)
    stack_is_flushed(traced, collector)
    assert not [span for span in collector.spans() if silent in json.dumps(span)]


def stack_is_flushed(stack, collector):
    """Sends one more span through every reactor and waits for it: what came before has been sent, and counted."""
    for _ in range(4 * int(REACTORS)):
        span_of(collector, ask(stack, AGENT, {"action": "get_x"}).json["trace_id"])
    eventually(lambda: counts(stack)["sent"] == len(collector.spans()), "what has arrived is counted as sent")


# ---- what a span says ----


@pytest.mark.parametrize("route, body, decision, rule, kind", [
    (AGENT, {"action": "get_x"}, "allow", "allow:reads", "agent"),
    (TOOL, {"tool": "drop_x"}, "deny", "deny:never-drop", "agent"),
    (AGENT, {"action": "issue_refund"}, "human_review", "review:refunds", "agent"),
    (AGENT, {"action": "write_file_prod"}, "compute", "compute:sandbox", "agent"),
    (USER, {"user_id": "alice", "action": "list_x"}, "allow", "allow:reads", "user"),
    (AGENT, {"action": "unheard_of"}, "deny", "default:deny", "agent"),
])
def test_a_span_says_what_was_decided_and_by_what(traced, collector, route, body, decision, rule, kind):
    trace = fresh_trace()
    before = time.time_ns()
    reply = ask(traced, route, body, traceparent(trace)).json
    after = time.time_ns()
    span = span_of(collector, trace)
    event = next(event for event in traced.trace(trace) if event["kind"] == "decision")
    had = span["attributes"]
    assert (had["writ.decision"], had["writ.rule"], had["writ.kind"]) == (decision, rule, kind)
    assert (had["writ.decision"], had["writ.rule"]) == (event["decision"], event["rule"])
    assert had.get("writ.policy.version") == event.get("policy_version")
    assert had["writ.request_id"] == reply.get("request_id", reply.get("requestId"))
    assert had["http.response.status_code"] == 200 and "status" not in span
    assert span["resource"]["service.name"] == "writ-engine"
    assert span["resource"]["service.instance.id"] == event["source"]["node"]
    # From the whole request to the moment when its reply may leave: within what the client measured.
    begin, end = int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"])
    assert before < begin < int(span["events"][0]["timeUnixNano"]) <= end < after + 50_000_000


def test_the_spans_id_is_in_the_events_id(traced, collector):
    """So that whoever reads an event (or its Kafka header) can name the span, and the other way round."""
    digits = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
    reply = ask(traced, AGENT, {"action": "get_x"}).json
    event, = traced.trace(reply["trace_id"])
    number = 0
    for digit in event["event_id"][4:]:
        number = number * 32 + digits.index(digit)
    assert span_of(collector, reply["trace_id"])["spanId"] == f"{number % 2**64:016x}"


def test_a_dry_run_says_that_it_is_one(traced, collector):
    trace = fresh_trace()
    assert ask(traced, AGENT, {"action": "get_x", "actor": "a"}, traceparent(trace), "?dry_run=true", "auditor").status == 200
    assert span_of(collector, trace)["attributes"]["writ.mode"] == "dry_run"


def test_a_redemption_is_a_span_in_the_trace_of_its_own_header(traced, collector):
    asked, redeemed = fresh_trace(), fresh_trace()
    review = ask(traced, AGENT, {"action": "issue_refund", "args": {"n": 1}}, traceparent(asked)).json["review_id"]
    reply = ask(traced, f"/v1/queue/{review}/redeem", {"action": "issue_refund", "args": {"n": 1}}, traceparent(redeemed))
    assert reply.json["trace_id"] == redeemed, reply
    span = span_of(collector, redeemed)
    assert (span["attributes"]["writ.rule"], span["parentSpanId"]) == ("review:pending", PARENT)


def test_a_request_that_is_refused_is_in_the_callers_trace_too(traced, collector):
    trace = fresh_trace()
    assert ask(traced, AGENT, {"action": 5}, traceparent(trace)).status == 400

    def found():
        return [span for span in collector.spans() if span["traceId"] == trace]
    span, = eventually(found, "the span of a refused request")
    assert span["attributes"]["error.type"] == "wrong_type"
    assert span["attributes"]["http.response.status_code"] == 400
    assert "writ.decision" not in span["attributes"] and "status" not in span


def test_no_argument_actor_or_secret_is_in_a_span(traced, collector):
    secret, trace = f"secret{secrets.token_hex(8)}", fresh_trace()
    ask(traced, AGENT, {"action": f"get_{secret}", "actor": f"actor-{secret}", "acting_for": f"user-{secret}",
                        "args": {"card": secret}, "context": {"note": secret}, "resource": f"db:{secret}"}, traceparent(trace))
    span_of(collector, trace)
    bodies = b"".join(body for _, _, body in collector.requests)
    assert secret.encode() not in bodies
    for key in traced.keys.values():
        assert key.encode() not in bodies and key.split("_", 2)[2].encode() not in bodies


def test_spans_of_many_clients_all_arrive_once(traced, collector):
    traces = [fresh_trace() for _ in range(600)]
    wires = [traced.at_engine().open() for _ in range(8)]
    for i, trace in enumerate(traces):
        wires[i % 8].send(wires[i % 8].encode("POST", AGENT, {"action": "get_x"}, traceparent(trace)))
    for i in range(len(traces)):
        assert wires[i % 8].read_reply().status == 200
    for wire in wires:
        wire.close()
    wanted = set(traces)
    eventually(lambda: len([s for s in collector.spans() if s["traceId"] in wanted]) >= len(traces), "all spans are there")
    arrived = [span["traceId"] for span in collector.spans() if span["traceId"] in wanted]
    assert sorted(arrived) == sorted(traces)
    ids = [span["spanId"] for span in collector.spans()]
    assert len(ids) == len(set(ids))


@pytest.fixture
def small_disk(tmp_path):
    """A file system of its own, and how to fill it."""
    folder = tmp_path / "small"
    folder.mkdir()
    if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", folder], capture_output=True).returncode:
        pytest.skip("SKIP: this machine does not allow mounts")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def test_a_request_without_a_decision_is_in_span_log_and_gauge(small_disk, fresh):
    """A full journal: what fails for a fault of ours is an error in the caller's trace, and can be found by its id."""
    with Collector() as collector:
        stack = fresh(engine_data=small_disk, engine=["--otlp.url", collector.url, "--journal.segment_size", "4MiB"]).start()
        stack.policy("base", BASE_POLICY)
        assert stack.metrics(stack.engine)['writ_engine_check_failing{check="journal"}'] == 0
        free = os.statvfs(small_disk)
        filler = small_disk / "filler"
        filler.write_bytes(b"\0" * (free.f_bavail * free.f_bsize - 4096))

        def refused():
            trace = fresh_trace()
            return ask(stack, AGENT, {"action": "get_x"}, traceparent(trace)).status == 503 and trace
        eventually(refused, "decisions are refused")
        now = stack.metrics(stack.engine)
        assert now['writ_engine_check_failing{check="journal"}'] == now['writ_engine_check_failing{check="disk"}'] == 1
        line = eventually(lambda: [json.loads(line) for line in stack.engine.log.read_text().splitlines() if "not_decided" in line],
                          "a line in the log")[-1]
        assert (line["level"], line["code"]) == ("warning", "journal_full")
        span = span_of(collector, line["trace_id"])
        assert (span["traceId"], span["parentSpanId"], span["status"]) == (line["trace_id"], PARENT, {"code": 2})
        assert (span["attributes"]["http.response.status_code"], span["attributes"]["error.type"]) == (503, "journal_full")
        before = stack.engine.log.read_text().count("not_decided")
        begin = time.monotonic()
        for _ in range(200):
            refused()
        told, seconds = stack.engine.log.read_text().count("not_decided") - before, time.monotonic() - begin
        assert told <= (seconds + 2) * int(REACTORS), "at most one line a second for each reactor"
        filler.unlink()
        eventually(lambda: ask(stack, AGENT, {"action": "get_x"}).status == 200, "it decides again")
        stack.engine.stop()
        stack.platform.stop()


# ---- found again ----


def test_a_trace_is_found_by_whatever_one_has_of_it(traced):
    """The command line, with what is in somebody's ticket: header, trace id as other tools write it, any id of ours."""
    def trace_command(given, *more):
        return traced.cli("audit", "trace", given, *more, "--platform", traced.platform.url, key=traced.keys["auditor"], check=False)

    trace = fresh_trace()
    answer = ask(traced, AGENT, {"action": "issue_refund", "args": {"order": 4711}}, traceparent(trace)).json
    events = traced.trace(trace, count=2)
    told = trace_command(trace).stdout
    assert told.count("issue_refund  human_review") == 2 and "{\"order\":4711}" in told and "base, version 1" in told
    uuid = "-".join([trace[:8], trace[8:12], trace[12:16], trace[16:20], trace[20:]])
    for given in [traceparent(trace)["traceparent"], trace.upper(), uuid, answer["request_id"], answer["review_id"],
                  events[0]["event_id"], events[1]["event_id"]]:
        found = trace_command(given)
        assert (found.returncode, found.stdout) == (0, told), f"{given}: {found.stdout}{found.stderr}"
    assert json.loads(trace_command(answer["request_id"], "--json").stdout)["trace_id"] == trace


def test_an_approval_is_followed_from_the_question_to_its_use_whatever_trace_the_use_has(traced):
    """A client that is instrumented sends another traceparent when it redeems."""
    def trace_of(given):
        done = traced.cli("audit", "trace", given, "--json", "--platform", traced.platform.url, key=traced.keys["auditor"])
        return json.loads(done.stdout)["trace_id"]

    asked, used = fresh_trace(), fresh_trace()
    body = {"action": "pay_refund", "args": {"order": 4712}}
    traced.policy("pays", "rules:\n  - {id: pays, agents: ['*'], actions: [pay_refund], decision: allow}\n"
                          "  - {id: asks, actions: [pay_refund], decision: human_review}\n")
    review = ask(traced, AGENT, body, traceparent(asked)).json["review_id"]
    assert ask(traced, f"/v1/queue/{review}/approve", {}, key=traced.key("rita-laptop", ["reviewer"])).status == 200
    answer = ask(traced, f"/v1/queue/{review}/redeem", body, traceparent(used)).json
    assert (answer["decision"], answer["trace_id"]) == ("allow", used), answer

    first, last = traced.trace(asked, count=4), traced.trace(used, count=1)
    assert [e["kind"] for e in first] == ["decision", "review.enqueued", "review.approved", "review.redeemed"]
    assert [e["kind"] for e in last] == ["decision"]
    spent = first[-1]
    assert spent["redemption_id"] == last[0]["redemption_id"] == answer["redemption_id"]
    assert spent["request_id"] == last[0]["request_id"] and spent["review_id"] == last[0]["review_id"] == review
    assert (trace_of(review), trace_of(spent["request_id"])) == (asked, used), "from either to the other"


def test_what_is_not_there_is_said_to_be_missing(traced):
    def status(given, *more):
        done = traced.cli("audit", "trace", given, *more, "--platform", traced.platform.url, key=traced.keys["auditor"], check=False)
        return done.returncode, done.stdout, done.stderr

    missing = "req_01JD3Z3NDEKTSV4RRFFQ69G5FA"
    assert status(missing)[0] == 1 and missing in status(missing)[2]
    assert status(fresh_trace())[:2] == (1, "")
    code, out, _ = status(fresh_trace(), "--json")
    assert code == 1 and json.loads(out)["events"] == []
    assert status("")[0] == 2


# ---- in nobody's way ----


def pump(stack, count):
    """Decisions as fast as one connection pipelines them; every answer must be a decision. Seconds."""
    with stack.at_engine() as wire:
        begin, depth = time.monotonic(), 50
        for start in range(0, count, depth):
            wire.send(b"".join(wire.encode("POST", AGENT, {"action": "get_x"}, traceparent(fresh_trace())) for _ in range(depth)))
            for _ in range(depth):
                reply = wire.read_reply()
                assert reply.status == 200 and reply.json["decision"] == "allow"
        return time.monotonic() - begin


def counts(stack):
    now = stack.metrics(stack.engine)
    full, refused = (now[f'writ_engine_spans_dropped_total{{reason="{why}"}}'] for why in ("full", "refused"))
    return {"sent": now["writ_engine_spans_sent_total"], "full": full, "refused": refused,
            "failures": now["writ_engine_spans_failures_total"]}


@pytest.mark.parametrize("trouble", ["stopped", "silent", 503])
def test_a_collector_in_trouble_costs_spans_and_nothing_else(traced, taking, trouble):
    stack_is_flushed(traced, taking)
    before, decided = counts(traced), 10000
    before_told = traced.engine.log.read_text().count('"event":"spans_')
    if trouble == "stopped":
        taking.stop()
    else:
        taking.mode = trouble
    pump(traced, decided)
    during = counts(traced)
    assert during["full"] > before["full"], "the ring of one reactor is smaller than what was asked"
    assert during["sent"] == before["sent"] and during["refused"] == before["refused"]
    with Wire(traced.engine.address) as wire:
        health = wire.get("/healthz").json
    assert health["status"] == "ok", "losing spans is no reason to be paged"
    taking.stop()
    eventually(lambda: counts(traced)["failures"] > before["failures"], "a batch has failed")
    taking.mode = 200
    taking.start()

    def all_told():
        now = counts(traced)
        return now["sent"] - before["sent"] + now["full"] - before["full"] == decided
    eventually(all_told, "every span was sent or counted as lost")

    def told():
        return [json.loads(line)["event"] for line in traced.engine.log.read_text().splitlines() if '"spans_' in line][before_told:]
    eventually(lambda: told()[-1:] == ["spans_sent_again"], "it is told that it is over")
    assert told()[0] == "spans_failed" and told() == ["spans_failed", "spans_sent_again"] * (len(told()) // 2), "each is told once"


def test_an_engine_stops_in_time_while_its_collector_is_silent(fresh):
    with Collector() as collector:
        collector.mode = "silent"
        stack = fresh(engine=["--otlp.url", collector.url, "--otlp.sample", "1"]).start()
        stack.policy("base", BASE_POLICY)
        took = []
        while not took or took[-1] > 15:
            pump(stack, 500)
            begin = time.monotonic()
            stack.engine.stop()
            took.append(time.monotonic() - begin)
            assert len(took) < 5, f"never in time: {took}"
            stack.engine.start()
        stack.platform.stop()


def test_what_is_in_the_ring_is_sent_when_the_engine_stops(fresh):
    with Collector() as collector:
        stack = fresh(engine=["--otlp.url", collector.url, "--otlp.sample", "1"]).start()
        stack.policy("base", BASE_POLICY)

        def is_sent():
            """It has a second for that; on a machine that is slow it may take longer."""
            trace = ask(stack, AGENT, {"action": "get_x"}).json["trace_id"]
            begin = time.monotonic()
            stack.engine.stop()
            took = time.monotonic() - begin
            sent = any(span["traceId"] == trace for span in collector.spans())
            assert sent or took > 1, "what was in the ring is lost"
            stack.engine.start()
            return sent
        eventually(is_sent, "what is in the ring is sent")


# ---- options ----


@pytest.mark.parametrize("option, value", [("otlp.sample", "1.1"), ("otlp.sample", "-0.1"), ("otlp.sample", "1e-3"), ("otlp.sample", "half"),
                                           ("otlp.url", "ftp://collector:4318"), ("otlp.url", "collector:4318")])
def test_a_bad_option_is_refused_with_its_name(tmp_path, option, value):
    done = subprocess.run([BIN / "writ-engine", "--data", tmp_path, f"--{option}", value], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 2
    assert option in done.stderr and value in done.stderr


def test_without_a_collector_nothing_is_sampled(stack):
    assert ask(stack, AGENT, {"action": "get_x"}, traceparent(fresh_trace())).status == 200
    assert set(counts(stack).values()) == {0}

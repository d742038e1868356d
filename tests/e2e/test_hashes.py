"""What each hash covers, and that none of them, nor anything that is kept, gives away what a mask covers."""

import hashlib
import json
import re

import pytest

import canonical

AGENT, TOOL, USER = "/v1/agent/authorize", "/api/v1/authorize", "/v1/authorize"

POLICY = """
mask: [args.pin, context.secret, resource.id, resource.properties.owner]
rules:
  - {id: reads, agents: ["*"], users: ["*"], actions: ["get_*"], decision: allow}
  - {id: pays, actions: ["pay_*"], decision: human_review, review: {expires_in: 1h, good_for: 1h}}
  - {id: drafts, agents: ["*"], actions: ["write_*"], decision: compute, compute: {tool: draft, args: {pin: "${args.pin}", n: 1}}}
"""

# route, body, and whether a mask covers something of it
REQUESTS = [
    (AGENT, {"action": "get_x", "args": {"n": 1}}, False),
    (AGENT, {"action": "get_x", "args": {"pin": "0417", "n": 1}}, True),
    (AGENT, {"action": "get_x", "args": {"pin": {"a": [1, 2]}}, "colour": "red"}, True),
    (AGENT, {"action": "get_x", "context": {"secret": "0417", "confidence": 0.5}}, True),
    (AGENT, {"action": "get_x", "context": "secret"}, False),
    (AGENT, {"action": "get_x", "resource": {"type": "card"}}, False),
    (AGENT, {"action": "get_x", "resource": "card:0417"}, True),
    (AGENT, {"action": "get_x", "resource": {"id": "0417", "type": "card"}}, True),
    (AGENT, {"action": "get_x", "resource": {"id": "a", "properties": {"owner": 417, "n": 1.5}}}, True),
    (AGENT, {"action": "no_such", "args": {"pin": "0417"}}, True),
    (AGENT, {"action": "pay_x", "args": {"pin": "0417", "amount": 12}}, True),
    (AGENT, {"action": "write_x", "args": {"pin": "0417"}}, True),
    (TOOL, {"tool": "pay_y", "args": {"pin": "0417"}, "resource": "db:x", "context": {"secret": 1, "k": {}}}, True),
    (USER, {"action": "get_x", "user_id": "eve", "args": {"pin": "0417"}}, True),
    (USER, {"action": "pay_z", "user_id": "eve"}, False),
]


@pytest.mark.parametrize("route, body, masked", REQUESTS)
def test_each_hash_can_be_taken_again(tenant, route, body, masked):
    tenant.policy(POLICY)
    with tenant.stack.at_engine(tenant.agent) as wire:
        reply = wire.post(route, body)
    assert reply.status == 200, reply
    camel = route == TOOL
    answer = {name: reply.json.get(spelled if camel else name) for name, spelled in
              (("trace_id", "traceId"), ("input_hash", "inputHash"), ("input_salt", "inputSalt"), ("output_hash", "outputHash"),
               ("review_id", "reviewId"))}
    asks = answer["review_id"] is not None
    events = tenant.trace(answer["trace_id"], 2 if asks else 1)
    for event in events:  # the review's own event, too
        assert ("input_salt" in event) is masked
        sent = canonical.masked_body(body, event) if masked else body
        assert event["input_hash"] == answer["input_hash"] == canonical.input_hash(json.dumps(sent), event.get("input_salt"))
        assert event.get("input_salt") == answer["input_salt"]
        if asks:
            names = {"names": ("confidence", "traceId", "actingFor", "scope")} if camel else {}
            assert event["binding_hash"] == canonical.binding_hash((tenant.stack.data / "pepper").read_text(), answer["review_id"], body,
                                                                   tenant.name, actor="agents", **names)
    assert events[0]["output_hash"] == answer["output_hash"] == canonical.output_hash(events[0])


def guesses(body, tenant, salts, reviews):
    """Every SHA-256 that somebody might try of a request: of its body and of its full form, alone or with what is shown beside the hash."""
    for text in (canonical.canonical(body), canonical.canonical(canonical.full_form(body, tenant, actor="agents"))):
        yield hashlib.sha256(text.encode())
        for salt in salts:
            yield hashlib.sha256(text.encode() + bytes.fromhex(salt))
        for review in reviews:
            yield hashlib.sha256(review.encode() + text.encode())


def kept_digests(stack, wanted):
    """Which of these digests are anywhere in the engine's files, as bytes."""
    heads = {digest[:8]: digest for digest in wanted}
    found = set()
    for path in sorted(stack.engine_data.glob("engine/**/*")):
        for part in re.split(rb"\0{64,}", path.read_bytes()) if path.is_file() else ():
            for at in range(len(part) - 31):
                digest = heads.get(part[at:at + 8])
                if digest is not None and part[at:at + 32] == digest:
                    found.add(digest)
    return found


def found(stack, texts, body_of, salts=(), reviews=()):
    """The PINs, of all ten thousand, of which some digest is shown in `texts` or kept in a file of the engine."""
    pins = {}
    for pin in range(10000):
        for guess in guesses(body_of(f"{pin:04}"), "default", salts, reviews):
            pins[guess.digest()] = f"{pin:04}"
    shown = {bytes.fromhex(digits) for digits in re.findall(r'"([0-9a-f]{64})"', json.dumps(texts))}
    return {pins[digest] for digest in (shown & set(pins)) | kept_digests(stack, pins)}


def test_four_digits_that_are_masked_are_not_found_by_trying_them_all(fresh):
    stack = fresh()
    stack.start()
    stack.policy("base", POLICY)
    rita = stack.key("rita", ["reviewer"], owner="rita", reviewers=["rita"])

    def body_of(pin):
        return {"action": "pay_x", "actor": "agents", "args": {"amount": 12, "pin": pin}}

    def story(body):
        """Asked, approved and redeemed under an Idempotency-Key; and asked once more, which is pending at the end."""
        with stack.at_engine() as wire:
            asked = wire.post(AGENT, body).json
            with stack.at_engine(rita) as reviewer:
                assert reviewer.post(f"/v1/queue/{asked['review_id']}/approve", {}).status == 200
            redeemed = wire.post(f"/v1/queue/{asked['review_id']}/redeem", body, headers={"Idempotency-Key": "k"}).json
            assert redeemed["decision"] == "allow", redeemed
            again = wire.post(AGENT, body).json
        events = stack.trace(asked["trace_id"], count=5) + stack.trace(again["trace_id"], count=2)
        stack.engine.stop()  # which writes a snapshot
        stack.engine.start()
        return [asked, redeemed, again, *events]

    texts = story(body_of("0417"))
    salts = {text["input_salt"] for text in texts if "input_salt" in text}
    reviews = {text["review_id"] for text in texts if "review_id" in text}
    assert len(salts) == 3 and len(reviews) == 2
    bindings = {text["binding_hash"] for text in texts if "binding_hash" in text}
    assert len(bindings) == 2, "each review has its own, in all its records"
    assert found(stack, texts, body_of, sorted(salts), sorted(reviews)) == set()
    # The search itself works: it finds what no mask covers.
    stack.policy("base", POLICY.replace("args.pin, ", ""))
    assert found(stack, story(body_of("0815")), body_of) == {"0815"}


def test_a_binding_survives_a_restart_with_other_reactors_and_is_of_the_masked_value_too(fresh):
    stack = fresh()
    stack.engine.arguments += ["--reactors", "1"]
    stack.start()
    stack.policy("base", POLICY)
    rita = stack.key("rita", ["reviewer"], owner="rita", reviewers=["rita"])
    body = {"action": "pay_x", "actor": "agents", "args": {"pin": "0417"}}
    headers = {"Idempotency-Key": "k"}

    def restart(reactors):
        stack.engine.stop()
        stack.engine.arguments[-1] = reactors
        stack.engine.start()

    def post(path, body, key="agent", headers=None):
        with stack.at_engine(key) as wire:
            return wire.post(path, body, headers=headers)

    review = post(AGENT, body).json["review_id"]
    restart("3")
    assert post(AGENT, body).json["review_id"] == review, "the same request is found"
    assert post(AGENT, {**body, "args": {"pin": "0418"}}).json["review_id"] != review
    assert post(f"/v1/queue/{review}/approve", {}, rita).status == 200
    restart("2")
    redeem = f"/v1/queue/{review}/redeem"
    changed = post(redeem, {**body, "args": {"pin": "0418"}}).json
    assert (changed["decision"], changed["rule"]) == ("deny", "review:binding")
    first = post(redeem, body, headers=headers).json
    assert first["decision"] == "allow", first
    restart("1")
    second = post(redeem, body, headers=headers).json
    assert second.pop("replayed") is True and second == first
    assert post(redeem, {**body, "args": {"pin": "0418"}}, headers=headers).status == 422
    again = post(AGENT, body).json["review_id"]
    assert again != review
    with stack.at_engine(rita) as wire:
        first, second = (wire.get(f"/v1/queue/{one}").json["binding_hash"] for one in (review, again))
    assert first != second

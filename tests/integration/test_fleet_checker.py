"""The checker of fleets is shown to bite: true notes and a true log hold, and one lie of each kind is found and named."""

import copy
import hashlib
import hmac
import json
import struct

import pytest

import fleet_checker
import fleet_topic
from fleet_clients import LIMIT, USES

NAME, PEPPER, FLEET = "test", bytes(range(32)), bytes(16)


def note(do, sent, answered, status=200, engine=0, **more):
    return {"do": do, "engine": engine, "sent": sent, "answered": answered, "status": status, "code": None, **more}


def use(token, sent, status=200, **more):
    return note("use", sent, sent + 0.1, status, token=token, actor="a", **more)


def act(actor, sent, decision="allow", action="get_x", **more):
    return note("act", sent, sent + 0.1, actor=actor, action=action, decision=decision, **more)


def true_notes():
    return [
        note("mint", 1.0, 1.1, 201, token="tok_1", actor="a"), use("tok_1", 2, decision="allow"),
        note("introspect", 2.5, 2.6, token="tok_1", active=True),
        note("revoke", 3.0, 3.5, token="tok_1"), use("tok_1", 3.2, decision="allow"), use("tok_1", 4, 401),
        note("introspect", 4.2, 4.3, token="tok_1", active=False), use("tok_1", 5, 401),
        note("mint", 1.0, 1.1, 201, token="tok_2", actor="c", max_uses=USES),
        *[use("tok_2", 2 + n, decision="allow", request_id=f"req_u{n}") for n in range(USES)], use("tok_2", 9, decision="deny"),
        act("b", 1), note("suspend", 2.0, 2.1, actor="b"), act("b", 3, "deny", rule="actor:suspended"),
        note("resume", 4.0, 4.1, actor="b"), act("b", 5),
        act("p", 1, "human_review", "pay_x", request_id="req_p", review_id="rev_1"),
        note("approve", 2.0, 2.1, review="rev_1"), note("deny", 2.0, 2.1, 409, review="rev_1"),
        note("redeem", 3.0, 3.1, review="rev_1", decision="allow"), note("redeem", 3.0, 3.1, review="rev_1", decision="deny"),
        note("look", 4.0, 4.1, review="rev_1", shows="redeemed"),
        *[act("m", 1 + n / 10, "allow", "mail_x", request_id=f"req_m{n}") for n in range(LIMIT)],
        act("m", 2, "deny", "mail_x", request_id="req_m9"),
    ]


def event(kind, number, **members):
    return {"kind": kind, "event_id": f"evt_{kind}_{number}", "timestamp": f"2026-01-01T00:00:{number:02d}.000Z", **members}


def true_events():
    return [
        event("token.minted", 1, token_id="tok_1"), event("token.minted", 2, token_id="tok_2"),
        event("token.revoked", 3, token_id="tok_1"),
        *[event("decision", 10 + n, decision="allow", token_id="tok_2", request_id=f"req_u{n}", rule="allow:reads", actor="c") for n in range(USES)],
        event("actor.suspended", 4, actor="b"), event("actor.resumed", 5, actor="b"),
        event("decision", 6, decision="human_review", request_id="req_p", actor="p"),
        event("review.enqueued", 6, review_id="rev_1"), event("review.approved", 7, review_id="rev_1"),
        event("review.redeemed", 8, review_id="rev_1"),
        *[event("decision", 20 + n, decision="allow", rule="allow:mails", actor="m", request_id=f"req_m{n}") for n in range(LIMIT)],
        event("decision", 26, decision="deny", rule="limit:mails", actor="m", request_id="req_m9"),
    ]


def true_state():
    return {"tokens": {"tok_1": {"revoked_at": "x"}, "tok_2": {"uses_left": 0}}, "actors": set(), "reviews": {"rev_1": "redeemed"}}


def broken(notes, events, state, stored=None):
    return {name for name, found in fleet_checker.check(notes, events, [state], stored).broken.items() if found}


def test_the_truth_holds_and_each_invariant_is_held_against_something():
    events = true_events()
    verdict = fleet_checker.check(true_notes(), events, [true_state()], [event["event_id"] for event in events])
    assert not verdict.must_hold().broken
    assert all(verdict.counts.values()), verdict.counts


# What is added or taken, and the invariants that are broken by it.
LIES = {
    "one acceptance after a revocation": (lambda n, e, s: n.append(use("tok_1", 6, decision="allow")), {"after revoke", "shown"}),
    "one acceptance after a revocation was shown": (
        lambda n, e, s: n.extend([note("introspect", 3.0, 3.1, token="tok_1", active=False)]), {"shown"}),
    "one acceptance of a suspended actor": (lambda n, e, s: n.append(act("b", 2.5)), {"after suspend"}),
    "one acceptance of a suspended actor's token": (
        lambda n, e, s: n.extend([note("suspend", 5, 5.1, actor="a"), use("tok_1", 6, decision="allow")]),
        {"after revoke", "after suspend", "shown", "not lost"}),
    "a refusal after a resumption": (lambda n, e, s: n.append(act("b", 6, "deny", rule="actor:suspended")), {"resumed"}),
    "a 401 to a fresh token": (lambda n, e, s: n.append(use("tok_1", 1.5, 401)), {"no 401"}),
    "a token that is shown alive after its revocation": (
        lambda n, e, s: n.append(note("introspect", 6.0, 6.1, token="tok_1", active=True)), {"stale read"}),
    "a review that is shown as pending after its approval": (
        lambda n, e, s: n.append(note("look", 2.5, 2.6, review="rev_1", shows="pending")), {"stale read"}),
    "a second redemption that was answered": (
        lambda n, e, s: n.append(note("redeem", 4, 4.1, review="rev_1", decision="allow")), {"redeemed once"}),
    "a second redemption in the log": (
        lambda n, e, s: e.append(event("review.redeemed", 30, review_id="rev_1")), {"redeemed once", "no phantom", "not lost"}),
    "an approval and a denial": (lambda n, e, s: n.append(note("deny", 4, 4.1, review="rev_1")), {"one winner", "not lost"}),
    "an approval and a denial in the log": (
        lambda n, e, s: e.append(event("review.denied", 7, review_id="rev_1")), {"one winner", "state"}),
    "one use too many": (lambda n, e, s: n.append(use("tok_2", 8, decision="allow")), {"uses", "not lost"}),
    "one use too many in the log": (
        lambda n, e, s: e.append(event("decision", 15, decision="allow", token_id="tok_2", request_id="req_u9", actor="c")), {"uses", "state"}),
    "one count too many": (lambda n, e, s: n.append(act("m", 2, "allow", "mail_x", request_id="req_m0")), {"window"}),
    "one count too many in the log": (
        lambda n, e, s: e.append(event("decision", 25, decision="allow", rule="allow:mails", actor="m", request_id="req_m8")), {"window"}),
    "a token that is lost": (lambda n, e, s: e.__setitem__(slice(None), [one for one in e if one.get("token_id") != "tok_1"]), {"not lost", "state"}),
    "a lost revocation": (lambda n, e, s: e.remove(event("token.revoked", 3, token_id="tok_1")), {"not lost"}),
    "a lost suspension": (lambda n, e, s: e.remove(event("actor.suspended", 4, actor="b")), {"not lost"}),
    "a lost count": (lambda n, e, s: e.remove(next(one for one in e if one.get("request_id") == "req_m1")), {"not lost"}),
    "a change twice": (lambda n, e, s: e.append({**e[2], "event_id": "evt_x"}), {"no phantom"}),
    "a token that no client asked for": (lambda n, e, s: e.append(event("token.minted", 9, token_id="tok_9")), {"no phantom", "state"}),
    "a revocation that no client asked for": (
        lambda n, e, s: e.append(event("token.revoked", 9, token_id="tok_2")), {"no phantom", "state"}),
    "a copy that forgot a revocation": (lambda n, e, s: s["tokens"].update(tok_1={}), {"state"}),
    "a copy that forgot a token": (lambda n, e, s: s["tokens"].pop("tok_2"), {"state"}),
    "a copy with a use too many": (lambda n, e, s: s["tokens"].update(tok_2={"uses_left": 1}), {"state"}),
    "a copy with another review": (lambda n, e, s: s["reviews"].update(rev_1="approved"), {"state"}),
    "a copy with a suspension too many": (lambda n, e, s: s["actors"].add("b"), {"state"}),
    "a review that is not found": (lambda n, e, s: n.append(note("look", 4, 4.1, 404, review="rev_1")), {"expected answers"}),
}


@pytest.mark.parametrize("lie", LIES)
def test_one_lie_is_found(lie):
    notes, events, state = true_notes(), true_events(), true_state()
    change, expected = LIES[lie]
    change(notes, events, state)
    assert broken(notes, events, state) == expected


def test_an_audit_trail_that_differs_is_found():
    events = true_events()
    ids = [one["event_id"] for one in events]
    assert broken(true_notes(), events, true_state(), ids) == set()
    for lie in (ids[1:], [*ids, ids[0]], [*ids, "evt_never_committed"]):
        assert broken(true_notes(), events, true_state(), lie) == {"stored"}


# ---- the replay ----


class Writer:
    """Entries as src/fleet/entry.h describes them."""

    def __init__(self, node):
        self.node, self.incarnation = node.encode(), node.encode().ljust(16, b"\0")
        self.key = fleet_topic.mac_key(PEPPER, NAME, FLEET)

    def entry(self, kind, term, n, previous, body, time_ms=1, seq=1, key=None):
        head = fleet_topic.HEADER.pack(b"writFLT1", 1, kind, 0, 7, FLEET, term, n, previous, self.incarnation, time_ms, seq, len(self.node), len(body))
        data = head + self.node + body
        return data + hmac.digest(key or self.key, data, "sha256")

    def term(self, term, previous, **more):
        return self.entry(fleet_topic.TERM, term, 0, previous, struct.pack("<Q", term) + b"http://x", **more)

    def records(self, term, n, previous, *events, before=None, **more):
        point = struct.pack("<QQ32s", *before) if n == 1 else b""
        texts = [json.dumps(one).encode() for one in events]
        return self.entry(fleet_topic.RECORDS, term, n, previous, point + b"".join(struct.pack("<II", len(text), 0) + text for text in texts), **more)


def digest(data):
    return hashlib.sha256(data).digest()


def true_log():
    """Two terms; the first leader's last entry came too late."""
    one, two = Writer("e1"), Writer("e2")
    t1 = one.term(1, bytes(32))
    r1 = one.records(1, 1, digest(t1), event("token.minted", 1), before=(0, 0, bytes(32)))
    r2 = one.records(1, 2, digest(r1), event("token.minted", 2), seq=2)
    late = one.records(1, 3, digest(r2), event("token.minted", 3), seq=3)
    t2 = two.term(2, digest(r2))
    r3 = two.records(2, 1, digest(t2), event("token.minted", 4), before=(1, 2, digest(r2)), seq=3)
    return [t1, r1, r2, t2, late, r3]


def replayed(entries):
    return fleet_topic.Replay([(offset, 0, data) for offset, data in enumerate(entries)], PEPPER, NAME)


def test_a_replay_counts_what_counts():
    replay = replayed(true_log())
    assert [one["event_id"] for one in replay.events] == ["evt_token.minted_1", "evt_token.minted_2", "evt_token.minted_4"]
    assert replay.stale == 1 and [term for term, *_ in replay.terms] == [1, 2]


def test_a_log_that_engines_may_not_have_written_ends_the_replay():
    log = true_log()
    forged = Writer("e2").records(2, 1, digest(log[3]), event("token.minted", 9), before=(1, 2, digest(log[2])), seq=3, key=b"another")
    other_history = Writer("e2").records(2, 1, digest(log[3]), before=(1, 1, digest(log[1])), seq=3)
    seq_again = Writer("e2").records(2, 1, digest(log[3]), before=(1, 2, digest(log[2])), seq=2)
    for wrong in ([*log[:2], *log[3:]], [log[0], log[2], log[1]], [*log[:5], forged], [*log[:5], other_history], [*log[:5], seq_again],
                  [*log[:3], Writer("e3").records(1, 3, digest(log[2]), seq=3)]):
        with pytest.raises(fleet_topic.Broken):
            replayed(wrong)


def test_brokers_that_differ_are_found():
    log = [(offset, 0, data) for offset, data in enumerate(true_log())]
    assert fleet_topic.same_log([log[:2], log, []]) == log
    other = copy.copy(log)
    other[1] = (1, 0, b"another")
    with pytest.raises(fleet_topic.Broken, match="brokers differ at offset 1"):
        fleet_topic.same_log([log, other])

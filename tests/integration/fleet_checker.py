"""What clients of a fleet were answered, against the replay of its log: each invariant with its count.

check() takes the notes of fleet_clients.py, the events of fleet_topic.Replay, and the state that the fleet shows at the end. It
counts what each invariant was held against, and lists what broke it. Times are of one machine's monotonic clock: a request
that was sent after an answer had come was decided after it.
"""

import collections
import datetime
import json

from fleet_clients import LIMIT, USES, WINDOW

INVARIANTS = {
    "redeemed once": "at most one redemption per approval",
    "uses": "uses of a token are at most max_uses",
    "window": "counts in any window are at most the limit",
    "after revoke": "nothing is accepted after the answer to a revocation",
    "after suspend": "nothing is accepted after the answer to a suspension",
    "shown": "nothing is accepted after a revocation was shown by introspection or a list",
    "stale read": "what is read after the answer to a change shows it",
    "one winner": "a review has one outcome",
    "not lost": "no answered change is missing in the log",
    "no phantom": "the log has no change that was not asked for, and none twice",
    "state": "the state at the end is that of the log",
    "no 401": "no 401 to a token that was minted before",
    "resumed": "nothing is refused as suspended after the answer to a resumption",
    "expected answers": "no answer but those that the interface has for it",
    "stored": "the audit trail has each committed event once, and no other",
}
LATER_MS = 1000  # between the moment of a count and the time of its event


class Verdict:
    def __init__(self):
        self.counts = {name: 0 for name in INVARIANTS}
        self.broken = collections.defaultdict(list)
        self.refusals = collections.Counter()

    def hold(self, name, is_held, what):
        self.counts[name] += 1
        if not is_held:
            self.broken[name].append(what)

    @property
    def table(self):
        return "\n".join(f"  {INVARIANTS[name]:<72}{count:>9} held against, {len(self.broken[name])} broken" for name, count in self.counts.items())

    def must_hold(self):
        found = {name: (len(list_), list_[:3]) for name, list_ in self.broken.items() if list_}
        assert not found, f"broken: {json.dumps(found, default=str, indent=1)}\n{self.table}"
        return self


def is_ok(note):
    return note["status"] in (200, 201)


def of(notes, *kinds):
    return [note for note in notes if note["do"] in kinds]


def grouped(notes, member):
    found = collections.defaultdict(list)
    for note in notes:
        if note.get(member) is not None:
            found[note[member]].append(note)
    return found


def first(notes, member="answered"):
    return min((note[member] for note in notes if note[member] is not None), default=float("inf"))


def event_seconds(event):
    return datetime.datetime.fromisoformat(event["timestamp"].replace("Z", "+00:00")).timestamp()


def most_within(times, span):
    """The most of these times that are in any half-open window of that length."""
    times, begin, most = sorted(times), 0, 0
    for end, at in enumerate(times):
        while at - times[begin] >= span:
            begin += 1
        most = max(most, end - begin + 1)
    return most


# ---- what clients saw ----


def check_tokens(verdict, notes):
    suspended = {actor: some for actor, some in grouped(of(notes, "suspend"), "actor").items()}
    for token, mine in grouped(notes, "token").items():
        mint = next((note for note in of(mine, "mint")), None)
        uses, revokes = of(mine, "use"), of(mine, "revoke")
        actor = mint["actor"] if mint else None
        kills = suspended.get(actor, [])
        ends = {"after revoke": first(filter(is_ok, revokes)), "after suspend": first(filter(is_ok, kills)),
                "shown": first(note for note in of(mine, "introspect", "list") if note.get("active") is False)}
        asked = first([*revokes, *kills], "sent")
        ended = min(ends["after revoke"], ends["after suspend"])
        for look in of(mine, "introspect"):
            if look["sent"] > ended and look["status"] == 200:
                verdict.hold("stale read", look["active"] is False, look)
        for use in uses:
            for name, ended in ends.items():
                if use["sent"] > ended:
                    verdict.hold(name, use["status"] != 200, use)
            if mint and use["sent"] > mint["answered"] and use["answered"] is not None and use["answered"] < asked:
                verdict.hold("no 401", use["status"] != 401, use)


def check_actors(verdict, notes):
    for actor, mine in grouped(of(notes, "act", "suspend", "resume"), "actor").items():
        suspended, resumes = first(filter(is_ok, of(mine, "suspend"))), of(mine, "resume")
        resumed, resuming = first(filter(is_ok, resumes)), first(resumes, "sent")
        for act in of(mine, "act"):
            if act["answered"] is None:
                continue
            refused = act.get("rule") == "actor:suspended"
            if act["sent"] > suspended and act["answered"] < resuming:
                verdict.hold("after suspend", act["status"] != 200 or refused, act)
            if act["sent"] > resumed:
                verdict.hold("resumed", not refused, act)


def check_reviews(verdict, notes):
    for review, mine in grouped(notes, "review").items():
        approved, denied = (any(map(is_ok, of(mine, verb))) for verb in ("approve", "deny"))
        verdict.hold("one winner", not (approved and denied), (review, "approved and denied"))
        resolved = first(filter(is_ok, of(mine, "approve", "deny")))
        for look in of(mine, "look"):
            if look["sent"] > resolved and look["status"] == 200:
                verdict.hold("stale read", look["shows"] != "pending", look)
        redeemed = [note for note in of(mine, "redeem") if note.get("decision") == "allow"]
        verdict.hold("redeemed once", len(redeemed) <= 1, redeemed)
        verdict.hold("one winner", not (denied and redeemed), (review, "denied and redeemed"))


def check_counts(verdict, notes):
    for token, mine in grouped(of(notes, "mint", "use"), "token").items():
        most = next((note.get("max_uses") for note in of(mine, "mint")), None)
        if most is not None:
            allowed = sum(note.get("decision") == "allow" for note in of(mine, "use"))
            verdict.hold("uses", allowed <= most, (token, allowed))
    for actor, mine in grouped([note for note in of(notes, "act") if note.get("action") == "mail_x"], "actor").items():
        allowed = sorted((note for note in mine if note.get("decision") == "allow"), key=lambda note: note["sent"])
        for i, note in enumerate(allowed):
            within = [other for other in allowed[i:] if other["answered"] - note["sent"] < WINDOW]
            verdict.hold("window", len(within) <= LIMIT, within)


ALLOWED = {"mint": (201,), "use": (200, 401), "act": (200,), "revoke": (200,), "suspend": (200,), "resume": (200, 404), "introspect": (200,),
           "approve": (200, 409), "deny": (200, 409), "redeem": (200, 409), "look": (200,), "list": (200,)}


def check_answers(verdict, notes):
    for note in notes:
        if note["status"] is None:
            verdict.refusals["no answer"] += 1
            continue
        if note["status"] == 503:
            verdict.refusals[note["code"]] += 1
        verdict.hold("expected answers", note["status"] in (*ALLOWED[note["do"]], 503), note)


# ---- the log ----

CHANGES = {"token.minted": "token_id", "token.revoked": "token_id", "review.enqueued": "review_id", "review.approved": "review_id",
           "review.denied": "review_id", "review.redeemed": "review_id"}
DONE = {"mint": ("token.minted", "token"), "revoke": ("token.revoked", "token"), "approve": ("review.approved", "review"),
        "deny": ("review.denied", "review")}


def check_log(verdict, notes, events):
    found = {kind: collections.Counter(event[member] for event in events if event["kind"] == kind) for kind, member in CHANGES.items()}
    decisions = collections.Counter(event["request_id"] for event in events if event["kind"] == "decision")
    moves = {kind: collections.Counter(event["actor"] for event in events if event["kind"] == kind) for kind in ("actor.suspended", "actor.resumed")}
    for note in notes:
        if not is_ok(note):
            continue
        if note["do"] in DONE:
            kind, member = DONE[note["do"]]
            verdict.hold("not lost", found[kind][note[member]] >= 1, note)
        elif note["do"] in ("suspend", "resume"):
            verdict.hold("not lost", moves[f"actor.{note['do']}{'ed' if note['do'] == 'suspend' else 'd'}"][note["actor"]] >= 1, note)
        elif note["do"] == "redeem" and note["decision"] == "allow":
            verdict.hold("not lost", found["review.redeemed"][note["review"]] == 1, note)
        elif note["do"] == "act" and note["action"] in ("mail_x", "pay_x"):
            verdict.hold("not lost", decisions[note["request_id"]] == 1, note)
            if note.get("review_id") is not None:
                verdict.hold("not lost", found["review.enqueued"][note["review_id"]] == 1, note)
    check_phantoms(verdict, notes, events, found, decisions)
    check_log_bounds(verdict, notes, events, found)


def check_phantoms(verdict, notes, events, found, decisions):
    for kind, counter in found.items():
        for id, count in counter.items():
            verdict.hold("no phantom", count == 1, (kind, id, count))
    for id, count in decisions.items():
        verdict.hold("no phantom", count == 1, ("decision", id, count))
    ids = collections.Counter(event["event_id"] for event in events)
    verdict.hold("no phantom", max(ids.values(), default=1) == 1, ids.most_common(1))
    asked = {kind: {note.get(member) for note in of(notes, do)} for do, (kind, member) in DONE.items()}
    for kind in ("token.revoked", "review.approved", "review.denied"):
        for id in found[kind]:
            verdict.hold("no phantom", id in asked[kind], (kind, id))
    answered = asked["token.minted"] - {None}
    open_ = sum(note["do"] == "mint" and not is_ok(note) for note in notes)  # an answer that did not come may have been a token
    unknown = [id for id in found["token.minted"] if id not in answered]
    verdict.hold("no phantom", len(unknown) <= open_, ("token.minted", unknown))


def check_log_bounds(verdict, notes, events, found):
    for review in found["review.enqueued"]:
        verdict.hold("redeemed once", found["review.redeemed"][review] <= 1, (review, "in the log"))
        verdict.hold("one winner", found["review.approved"][review] + found["review.denied"][review] <= 1, (review, "in the log"))
    most = {note["token"]: note["max_uses"] for note in of(notes, "mint") if is_ok(note) and note.get("max_uses")}
    used = collections.Counter(event["token_id"] for event in events if event["kind"] == "decision" and event.get("decision") == "allow" and
                               event.get("token_id"))
    for token, uses in most.items():
        verdict.hold("uses", used[token] <= uses, (token, used[token], "in the log"))
        allowed = sum(note.get("decision") == "allow" for note in of(notes, "use") if note["token"] == token)
        verdict.hold("not lost", used[token] >= allowed, (token, used[token], allowed))
    times = collections.defaultdict(list)
    for event in events:
        if event["kind"] == "decision" and event.get("rule") == "allow:mails" and event["decision"] == "allow":
            times[event["actor"]].append(event_seconds(event))
    for actor, list_ in times.items():
        most_ = most_within(list_, WINDOW - LATER_MS / 1000)
        verdict.hold("window", most_ <= LIMIT, (actor, most_, "in the log"))


# ---- the state at the end ----


def state_of(events):
    """{token: (revoked, uses)}, {review: status}, {suspended actors}: of the log."""
    tokens, reviews, actors = {}, {}, set()
    for event in events:
        kind = event["kind"]
        if kind == "token.minted":
            tokens[event["token_id"]] = [False, 0]
        elif kind == "token.revoked":
            tokens[event["token_id"]][0] = True
        elif kind == "actor.suspended":
            actors.add(event["actor"])
        elif kind == "actor.resumed":
            actors.discard(event["actor"])
        elif kind.startswith("review.") and "review_id" in event:
            status = {"enqueued": "pending"}.get(kind[7:], kind[7:])
            reviews[event["review_id"]] = status
        elif kind == "decision" and event.get("token_id") in tokens and event.get("decision") == "allow":
            tokens[event["token_id"]][1] += 1
    return tokens, reviews, actors


def check_state(verdict, events, shown):
    """`shown`: {"tokens": {id: item}, "reviews": {id: status}, "actors": {name}} as one leader of the fleet lists them."""
    tokens, reviews, actors = state_of(events)
    for token, (revoked, uses) in tokens.items():
        item = shown["tokens"].get(token)
        verdict.hold("state", item is not None, (token, "is missing"))
        if item is None:
            continue
        verdict.hold("state", not revoked or bool(item.get("revoked_at")), (token, "revoked in the log only"))
        if "uses_left" in item:
            verdict.hold("state", item["uses_left"] == USES - uses, (token, item["uses_left"], uses))
    for token in shown["tokens"]:
        verdict.hold("state", token in tokens, (token, "is not in the log"))
    for review, status in reviews.items():
        verdict.hold("state", shown["reviews"].get(review) == status, (review, shown["reviews"].get(review), status))
    verdict.hold("state", actors == shown["actors"], (actors, shown["actors"]))


def check_store(verdict, events, stored):
    """`stored`: event ids of the audit trail's stream of the fleet; None: the fleet publishes none."""
    if stored is None:
        return
    counts = collections.Counter(stored)
    for event in events:
        verdict.hold("stored", counts[event["event_id"]] == 1, (event["event_id"], counts[event["event_id"]]))
    committed = {event["event_id"] for event in events}
    for id in counts:
        verdict.hold("stored", id in committed, (id, "is not in the log"))


def check(notes, events, shown=(), stored=None):
    verdict = Verdict()
    for part in (check_tokens, check_actors, check_reviews, check_counts, check_answers):
        part(verdict, notes)
    check_log(verdict, notes, events)
    for state in shown:
        check_state(verdict, events, state)
    check_store(verdict, events, stored)
    return verdict

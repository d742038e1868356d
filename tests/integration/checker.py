"""What clients were told, against what is stored and what the service says now.

Clients write down what they do, before and after, in a log of their own: one JSON object a line,
appended in whole lines and fsynced, so it outlives the test that was killed as well.

    {"sent": ["k1.1", "k1.2"]}                       these requests go out now, each with its trace id
    {"answer": "k1.1", "request_id": …, "decision": …, "output_hash": …, "review_id": …}
    {"refused": "k1.2", "status": 503, "code": …}    an answer, and no decision
    {"durable": "evt_…", "node": "n", "seq": 7}      an engine's own word that it has this record
    {"asks": "approve", "id": "rev_…"}               a change of state goes out now
    {"told": "approve", "id": "rev_…", "result": …}  and this is what was answered

What was asked and never answered may have happened or not; what was answered must be so:

    lost         answered, and not in the store
    duplicate    in the store twice: one event id, one place (node, journal, seq), two decisions of one
                 request, two events of one change
    phantom      in the store, and nobody asked for it
    wrong        stored with another hash, decision or id than was answered
    gaps         numbers of a journal that are missing
    broken       a token or a review is not what its client was told
    strange      refused with anything but a 503

The store is read past the platform (SQLite's file, PostgreSQL through psql): a checker that asks
the program under test would believe it.
"""

import collections
import csv
import hashlib
import json
import os
import pathlib
import sqlite3
import subprocess
import threading
import time

Row = collections.namedtuple("Row", "node journal seq event_id kind trace_id event", defaults=("{}",))

# The change that a client asks for -> the kind of the event that records it.
KINDS = {"mint": "token.minted", "revoke": "token.revoked", "approve": "review.approved", "deny": "review.denied",
         "cancel": "review.cancelled", "redeem": "review.redeemed"}
# The state of a review after each.
AFTER = {"approve": "approved", "deny": "denied", "cancel": "cancelled", "redeem": "redeemed"}
BEFORE = {"approve": "pending", "deny": "pending", "cancel": "pending", "redeem": "approved"}


# ---- the log ----


class Told:
    """The clients' log. Any thread may tell; each call is one write of whole lines."""

    def __init__(self, path, sync_every=0.1):
        self.path = pathlib.Path(path)
        self.file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self.lock = threading.Lock()
        self.closing = threading.Event()
        self.syncer = threading.Thread(target=self._sync_often, args=(sync_every,), daemon=True)
        self.syncer.start()

    def tell(self, *records):
        lines = "".join(json.dumps(record, separators=(",", ":")) + "\n" for record in records).encode()
        with self.lock:
            while lines:
                lines = lines[os.write(self.file, lines):]

    def sync(self):
        os.fsync(self.file)

    def _sync_often(self, pause):
        while not self.closing.wait(pause):
            self.sync()

    def close(self):
        if not self.closing.is_set():
            self.closing.set()
            self.syncer.join()
            self.sync()
            os.close(self.file)

    def records(self):
        return read_log(self.path)


def read_log(path):
    """Its records; half a line at the end was never said."""
    with open(path, "rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                yield json.loads(line)


# ---- stores ----


class SqliteStore:
    def __init__(self, path):
        self.path = path

    def _ask(self, sql):
        database = sqlite3.connect(f"file:{self.path}?mode=ro", uri=True, timeout=30)
        try:
            yield from database.execute(sql)
        finally:
            database.close()

    def rows(self):
        return (Row(*row) for row in self._ask("SELECT node, journal, seq, event_id, kind, trace_id, event FROM records ORDER BY id"))

    def quarantine(self):
        return list(self._ask("SELECT reason, node, seq FROM quarantine"))


class PostgresStore:
    """`connection`: what psql takes, a URL or name=value pairs. The program's own door is not used."""

    def __init__(self, connection, psql="psql"):
        self.connection, self.psql = connection, psql

    def _ask(self, sql):
        command = [self.psql, "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", self.connection, "-c", f"COPY ({sql}) TO STDOUT (FORMAT csv)"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, encoding="utf-8") as asked:
            csv.field_size_limit(1 << 24)
            yield from csv.reader(asked.stdout)
        assert asked.returncode == 0, f"psql ended with {asked.returncode}"

    def rows(self):
        for node, journal, seq, event_id, kind, trace_id, event in self._ask(
                "SELECT node, journal, seq, event_id, kind, trace_id, event FROM records ORDER BY id"):
            yield Row(node or None, journal or None, int(seq) if seq else None, event_id, kind, trace_id or None, event)

    def quarantine(self):
        return [tuple(row) for row in self._ask("SELECT reason, node, seq FROM quarantine")]


# ---- what clients know ----


class Thing:
    """A token or a review, by what its client asked and was told, in that order."""

    def __init__(self):
        self.states = set()        # what a review may be now
        self.asked = None          # the change that is under way
        self.told = set()          # changes that were answered as done
        self.maybe = set()         # changes that were asked for and never answered
        self.token, self.max_uses = None, None
        self.uses, self.uses_maybe = 0, 0

    def ask(self, change):
        self.settle()
        self.asked = change

    def settle(self):
        """What was asked before and has no answer may have happened."""
        if self.asked == "use":
            self.uses_maybe += 1
        elif self.asked is not None:
            self.maybe.add(self.asked)
            if self.asked in AFTER and BEFORE[self.asked] in self.states:
                self.states.add(AFTER[self.asked])
        self.asked = None

    def tell(self, change, record):
        self.asked = None
        result = record.get("result", "done")
        if change == "use":
            self.uses += result == "allow"
        elif change == "mint":
            self.token, self.max_uses = record["token"], record.get("max_uses")
            self.told.add(change)
        elif result == "done":
            self.told.add(change)
            if change in AFTER:
                self.states = {AFTER[change]}
        elif change in AFTER:
            self.states = {result}  # refused, with the state that it is in


def fact(answer):
    """What was answered, or stored, as 16 bytes: a long run has millions of them."""
    told = "|".join(str(answer.get(name)) for name in ("request_id", "decision", "output_hash", "review_id"))
    return hashlib.blake2b(told.encode(), digest_size=16).digest()


class Clients:
    """Everything that the log says, in memory. answers: {trace: fact}; queued: {trace: its review}."""

    def __init__(self, records):
        self.sent, self.answers, self.queued, self.durable = set(), {}, {}, {}
        self.refused = collections.Counter()
        self.tokens, self.reviews = {}, {}
        self.mints_unanswered = 0
        for record in records:
            self.take(record)
        for thing in [*self.tokens.values(), *self.reviews.values()]:
            thing.settle()

    def thing(self, id):
        return (self.tokens if id.startswith("tok_") else self.reviews).setdefault(id, Thing())

    def take(self, record):
        if "sent" in record:
            self.sent.update(record["sent"])
        elif "answer" in record:
            trace = record["answer"]
            assert trace not in self.answers, f"the log has two answers to {trace}"
            self.answers[trace] = fact(record)
            if record["decision"] == "human_review":
                self.queued[trace] = record["review_id"]
            if record.get("follow"):
                self.thing(record["review_id"]).states = {"pending"}
        elif "refused" in record:
            self.refused[record["status"], record.get("code")] += 1
        elif "durable" in record:
            place = (record["node"], record["seq"])
            assert place not in self.durable, f"the log has two records at {place}"
            self.durable[place] = record["durable"]
        elif "asks" in record:
            if record["asks"] == "mint":
                self.mints_unanswered += 1  # until it is told
            else:
                self.thing(record["id"]).ask(record["asks"])
        else:
            self.mints_unanswered -= record["told"] == "mint"
            self.thing(record["id"]).tell(record["told"], record)

    def changes(self):
        """[(id, change)] that were answered as done."""
        return [(id, change) for things in (self.tokens, self.reviews) for id, thing in things.items() for change in thing.told]


# ---- the verdict ----


class Verdict:
    def __init__(self):
        self.answered = self.stored = self.unanswered = 0
        self.lost, self.duplicate, self.phantom, self.wrong, self.gaps, self.broken = [], [], [], [], [], []
        self.quarantined, self.journals, self.refused = [], {}, collections.Counter()
        self.things = 0

    @property
    def line(self):
        return (f"{self.answered} answered, {self.stored} stored, {len(self.lost)} lost, {len(self.duplicate)} duplicate, "
                f"{len(self.phantom)} phantom")

    @property
    def more(self):
        journals = ", ".join(f"{node} 1..{last}" for (node, _), last in sorted(self.journals.items()))
        refused = ", ".join(f"{count} x {status} {code}" for (status, code), count in sorted(self.refused.items(), key=str)) or "none"
        return (f"  {self.unanswered} more were recorded and their answer was cut off; refused: {refused}; "
                f"contiguous: {journals}; {self.things} tokens and reviews as told")

    @property
    def strange(self):
        """Refusals that no fault excuses: a service that cannot keep its promise says 503."""
        return [(status, code) for status, code in self.refused if status != 503]

    @property
    def faults(self):
        return {name: found for name in ("lost", "duplicate", "phantom", "wrong", "gaps", "broken", "quarantined", "strange")
                if (found := getattr(self, name))}

    def must_hold(self):
        assert not self.faults, "\n".join([self.line, *(f"{name}: {len(found)}, such as {found[:5]}" for name, found in self.faults.items())])
        return self


def check_store(clients, store, nodes=None):
    """The log against the rows of the store. `nodes`: only their records are looked at (None: all)."""
    verdict = Verdict()
    ids, places, decisions = set(), collections.defaultdict(dict), {}
    enqueued, changed = {}, collections.Counter()
    for row in store.rows():
        if nodes is not None and row.node not in nodes:
            continue
        if row.event_id in ids:
            verdict.duplicate.append(row.event_id)
        ids.add(row.event_id)
        if row.node is not None:
            if row.seq in places[row.node, row.journal]:
                verdict.duplicate.append((row.node, row.journal, row.seq))
            places[row.node, row.journal][row.seq] = row.event_id
        if row.kind == "decision":
            _take_decision(verdict, clients, decisions, row)
        elif row.kind == "review.enqueued":
            if row.trace_id in enqueued:
                verdict.duplicate.append((row.trace_id, row.kind))
            enqueued[row.trace_id] = json.loads(row.event)["review_id"]
        elif row.kind in KINDS.values():
            event = json.loads(row.event)
            changed[event.get("token_id") or event.get("review_id"), row.kind] += 1
    _compare_answers(verdict, clients, decisions, enqueued)
    _compare_changes(verdict, clients, changed)
    _compare_places(verdict, clients, places)
    verdict.quarantined = store.quarantine()
    verdict.refused = clients.refused
    return verdict


def _take_decision(verdict, clients, decisions, row):
    if clients.durable and not clients.sent:
        return  # half an engine that answers nobody: its records are compared by their places
    if row.trace_id in decisions:
        verdict.duplicate.append(row.trace_id)
    elif row.trace_id not in clients.sent:
        verdict.phantom.append(row.trace_id)
    else:
        told = clients.answers.get(row.trace_id)
        decisions[row.trace_id] = None if told is None else told == fact(json.loads(row.event))


def _compare_answers(verdict, clients, decisions, enqueued):
    """decisions: {trace: whether it is what was answered; None where nothing was}."""
    verdict.answered += len(clients.answers)
    verdict.lost += [trace for trace in clients.answers if trace not in decisions]
    verdict.lost += [(trace, "review.enqueued") for trace, review in clients.queued.items() if trace in decisions and enqueued.get(trace) != review]
    verdict.wrong += [trace for trace, right in decisions.items() if right is False]
    verdict.phantom += [(trace, "review.enqueued") for trace in enqueued if trace not in decisions]
    verdict.stored += sum(right is not None for right in decisions.values())
    verdict.unanswered = sum(right is None for right in decisions.values())


def _compare_changes(verdict, clients, changed):
    told = clients.changes()
    verdict.answered += len(told)
    for id, change in told:
        if changed[id, KINDS[change]] == 0:
            verdict.lost.append((id, change))
        else:
            verdict.stored += 1
    asked = {(id, KINDS[change]) for things in (clients.tokens, clients.reviews) for id, thing in things.items()
             for change in thing.told | thing.maybe}
    unknown = []
    for (id, kind), count in changed.items():
        if count > 1:
            verdict.duplicate.append((id, kind))
        if count and (id, kind) not in asked:
            (unknown if kind == "token.minted" else verdict.phantom).append((id, kind))
    # A mint whose answer was cut off made a token whose id nobody knows.
    verdict.phantom += unknown[clients.mints_unanswered:]


def _compare_places(verdict, clients, places):
    for (node, journal), found in places.items():
        last = max(found)
        verdict.journals[node, journal] = last
        verdict.gaps += [(node, journal, seq) for seq in range(1, last + 1) if seq not in found] if len(found) < last else []
    if not clients.durable:
        return
    by_node = {node: found for (node, _), found in places.items()}
    verdict.answered += len(clients.durable)
    for (node, seq), event_id in clients.durable.items():
        stored = by_node.get(node, {}).get(seq)
        if stored is None:
            verdict.lost.append((node, seq))
        else:
            verdict.stored += 1
            if stored != event_id:
                verdict.wrong.append((node, seq))
    if not clients.sent:  # every record of such an engine was told of
        verdict.phantom += [(node, seq) for node in {node for node, _ in clients.durable} for seq in by_node.get(node, {})
                            if (node, seq) not in clients.durable]


def check_state(clients, service, verdict):
    """Asks the service what became of each token and review. Uses counted tokens up.

    `service.use(token, id)` gives "allow", "spent" or "refused", and writes it down; `service.review(id)` its status."""
    for id, thing in clients.tokens.items():
        if thing.token is None:
            continue  # nobody was told it
        verdict.things += 1
        said = service.use(thing.token, id)
        if "revoke" in thing.told:
            if said != "refused":
                verdict.broken.append(f"{id} was revoked and is taken: {said}")
        elif "revoke" in thing.maybe and said == "refused":
            pass
        elif thing.max_uses is None:
            if said != "allow":
                verdict.broken.append(f"{id} lives and is not taken: {said}")
        else:
            _drain(id, thing, said, service, verdict)
    for id, thing in clients.reviews.items():
        verdict.things += 1
        status = service.review(id)
        if status not in thing.states:
            verdict.broken.append(f"{id} is {status}, its client knows {sorted(thing.states)}")
    return verdict


def _drain(id, thing, said, service, verdict):
    """A counted token has exactly what is left of it; a use whose answer was cut off may be spent."""
    left = 0
    while said == "allow" and left <= thing.max_uses:
        left += 1
        said = service.use(thing.token, id)
    total = thing.uses + left
    if total > thing.max_uses:
        verdict.broken.append(f"{id} was used {total} times of {thing.max_uses}")
    elif total + thing.uses_maybe < thing.max_uses or said != "spent":
        verdict.broken.append(f"{id} lost uses: {thing.uses} told, {left} left, {thing.uses_maybe} unknown, of {thing.max_uses}: {said}")


def check(told, store, service=None, settle=None, nodes=None):
    """The whole comparison; prints its line. `settle()` waits until all that was recorded should be stored."""
    begun = time.monotonic()
    asked = Verdict()
    if service is not None:
        check_state(Clients(told.records()), service, asked)
    if settle is not None:
        settle()
    verdict = check_store(Clients(told.records()), store, nodes)
    verdict.broken, verdict.things = asked.broken, asked.things
    print(f"{verdict.line}\n{verdict.more} ({time.monotonic() - begun:.1f} s)", flush=True)
    return verdict.must_hold()

"""Clients of a fleet that write down each answer with its times. They never repeat a request unseen.

A note is a dictionary: `do`, the engine, `sent` and `answered` (the machine's monotonic clock; `answered` None: no answer came),
status, code, and what the answer shows. fleet_checker.py reads them. Each step goes to an engine by chance.
"""

import json
import threading
import time

from wire import Closed, Wire

AGENT = "/v1/agent/authorize"
LIMIT, WINDOW = 5, 10.0
USES = 4
POLICY = f"""
rules:
  - {{id: reads, agents: ["*"], actions: ["get_*"], decision: allow}}
  - {{id: pays, agents: ["*"], actions: ["pay_*"], decision: human_review}}
  - {{id: mails, agents: ["*"], actions: ["mail_*"], decision: allow, limit: {{count: {LIMIT}, per: actor, window: {WINDOW:.0f}s}}}}
  - {{id: probes, agents: ["*"], actions: ["probe_*"], decision: allow, limit: {{count: 1000000000, per: actor, window: 1h}}}}
"""


class Notes:
    """What was answered, in memory and in a file that outlives a failed test."""

    def __init__(self, path):
        self.lock, self.list = threading.Lock(), []
        self.file = open(path, "a", buffering=1)

    def put(self, note):
        with self.lock:
            self.list.append(note)
            self.file.write(json.dumps(note) + "\n")

    def close(self):
        self.file.close()


def ask(net, engine, method, path, body=None, key="agent", timeout=8.0):
    """(status, the answer's JSON, sent, answered); status None where no whole answer came."""
    sent = time.monotonic()
    try:
        with Wire(net.engines[engine].address, net.keys.get(key, key), timeout=timeout) as wire:
            sent = time.monotonic()
            wire.send(wire.encode(method, path, body))
            reply = wire.read_reply()
        return reply.status, reply.json, sent, time.monotonic()
    except (Closed, OSError, ValueError):
        return None, {}, sent, None


class Client(threading.Thread):
    """Rounds until it is stopped. A fault of the client itself is kept, and raised by stop()."""

    PAUSE = 0.05

    def __init__(self, net, notes, name, chance, slower=1):
        super().__init__(daemon=True)
        self.net, self.notes, self.label, self.chance, self.slower = net, notes, name, chance, slower
        self.stopping, self.fault, self.rounds = threading.Event(), None, 0

    def run(self):
        try:
            while not self.stopping.is_set():
                self.rounds += 1
                self.round()
                self.stopping.wait(self.PAUSE * self.slower)
        except BaseException as fault:
            self.fault = fault

    def stop(self):
        self.stopping.set()
        self.join()
        if self.fault is not None:
            raise self.fault

    @property
    def actor(self):
        return f"{self.label}-{self.rounds}"

    def any(self):
        return self.chance.randrange(len(self.net.engines))

    def note(self, do, method, path, body=None, key="agent", engine=None, timeout=8.0, **more):
        engine = self.any() if engine is None else engine
        status, reply, sent, answered = ask(self.net, engine, method, path, body, key, timeout)
        note = {"do": do, "engine": engine, "sent": sent, "answered": answered, "status": status, "code": reply.get("code"), **more}
        if status == 200:
            note |= {name: reply[name] for name in ("decision", "rule", "request_id", "active", "review_id") if name in reply}
            if "status" in reply:
                note["shows"] = reply["status"]
        if status == 201:
            note |= {"token": reply["token_id"]}
        self.notes.put(note)
        return note, reply

    def mint(self, actor, **more):
        """(the token's id, its text), or None."""
        note, reply = self.note("mint", "POST", "/v1/tokens/mint", {"scope": "*", "actor": actor, "ttl_seconds": 86400, **more}, actor=actor, **more)
        return (reply["token_id"], reply["token"]) if note["status"] == 201 else None

    def use(self, token, actor, engine=None, action="get_x"):
        return self.note("use", "POST", AGENT, {"actor": actor, "action": action}, key=token[1], engine=engine, token=token[0], actor=actor)[0]

    def act(self, actor, engine=None, action="get_x"):
        return self.note("act", "POST", AGENT, {"actor": actor, "action": action}, engine=engine, actor=actor, action=action)[0]

    def repeat(self, question, times=6):
        """Asks until it is answered with 200, each time at another engine. 404: what was asked for before has happened, unanswered."""
        for _ in range(times):
            status = question()["status"]
            if status in (200, 404):
                return status == 200
            if self.stopping.wait(0.3):
                return False
        return False

    def together(self, *parts):
        """All at the same time, each in a thread of its own."""
        threads = [threading.Thread(target=self._part, args=(part,), daemon=True) for part in parts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _part(self, part):
        try:
            part()
        except BaseException as fault:
            self.fault = fault
            self.stopping.set()

    def during(self, main, *others):
        """The others in a loop, as long as main() runs."""
        over = threading.Event()

        def loop(part):
            while not over.is_set():
                part()
                over.wait(0.02 * self.slower)

        def run():
            try:
                main()
            finally:
                over.set()

        self.together(run, *[lambda part=part: loop(part) for part in others])

    def everywhere(self, part):
        for engine in range(len(self.net.engines)):
            part(engine)


class Tokens(Client):
    """Mints, uses everywhere, revokes while others use and look, uses everywhere again."""

    def round(self):
        actor = self.actor
        token = self.mint(actor)
        if token is None:
            return
        self.everywhere(lambda engine: self.use(token, actor, engine))

        def introspect():
            self.note("introspect", "POST", "/v1/tokens/introspect", {"token": token[1]}, token=token[0])

        def revoke():
            self.stopping.wait(0.1)
            if not self.repeat(lambda: self.note("revoke", "DELETE", f"/v1/tokens/{token[0]}", timeout=25.0, token=token[0])[0]):
                return
            self.everywhere(lambda engine: self.use(token, actor, engine))
            introspect()

        self.during(revoke, lambda: self.use(token, actor), lambda: self.use(token, actor), introspect)


class Switch(Client):
    """Suspends an actor while it acts by a key and by a token, looks, and resumes it."""

    def round(self):
        actor = self.actor
        token = self.mint(actor)
        self.everywhere(lambda engine: self.act(actor, engine))

        def change(do):
            return self.repeat(lambda: self.note(do, "POST", f"/v1/actors/{actor}/{do}", {}, key="admin", timeout=25.0, actor=actor)[0])

        def both():
            self.stopping.wait(0.1)
            if not change("suspend"):
                return
            self.everywhere(lambda engine: self.act(actor, engine))
            if token is not None:
                self.everywhere(lambda engine: self.use(token, actor, engine))
            if change("resume"):
                self.everywhere(lambda engine: self.act(actor, engine))

        others = [lambda: self.act(actor)]
        if token is not None:
            others.append(lambda: self.use(token, actor))
        self.during(both, *others)


class Reviews(Client):
    """Asks; two reviewers at two engines approve and deny at once; the approval is redeemed at all engines at once."""

    def round(self):
        actor = self.actor
        asked = self.act(actor, action="pay_x")
        review = asked.get("review_id")
        if review is None:
            return

        def resolve(verb):
            return self.note(verb, "POST", f"/v1/queue/{review}/{verb}", {"note": "by a test"}, key="reviewer", review=review)[0]

        verbs = self.chance.choice([["approve"], ["approve", "approve"], ["approve", "deny"], ["approve", "deny", "deny"]])
        self.together(*[lambda verb=verb: resolve(verb) for verb in verbs])
        body = {"actor": actor, "action": "pay_x"}

        def redeem():
            return self.note("redeem", "POST", f"/v1/queue/{review}/redeem", body, review=review)[0]

        self.together(redeem, redeem, redeem)
        redeem()
        self.note("look", "GET", f"/v1/queue/{review}", review=review)


class Uses(Client):
    """A token of few uses is used by several at once, more often than it may be."""

    def round(self):
        actor = self.actor
        token = self.mint(actor, max_uses=USES)
        if token is not None:
            self.together(*[lambda: [self.use(token, actor) for _ in range(2)]] * 4)


class Limits(Client):
    """One actor sends more than its limit, at all engines, for as long as the client lives."""

    PAUSE = 0.5

    def round(self):
        self.together(*[lambda: self.act(self.label, action="mail_x")] * 4)


class Probe(threading.Thread):
    """Asks one engine for a counted decision, again and again: when was state served?"""

    def __init__(self, net, engine):
        super().__init__(daemon=True)
        self.net, self.engine = net, engine
        self.stopping, self.served = threading.Event(), []

    def run(self):
        body = {"actor": f"probe-{self.engine}", "action": "probe_x"}
        while not self.stopping.is_set():
            status, _, sent, answered = ask(self.net, self.engine, "POST", AGENT, body, timeout=2.0)
            if status == 200:
                self.served.append((sent, answered))
            self.stopping.wait(0.05)

    def first_after(self, moment):
        """When the first request that was sent after that moment was answered; None: not yet."""
        return min((answered for sent, answered in self.served if sent >= moment), default=None)


class Clients:
    """All of them, against one fleet. `slower`: by what they rest longer, for a machine that runs other tests meanwhile."""

    KINDS = (Tokens, Tokens, Switch, Reviews, Uses, Limits)

    def __init__(self, net, chance, slower=1):
        self.net, self.chance, self.slower = net, chance, slower
        self.notes = Notes(net.folder / "notes.ndjson")
        self.list, self.probes = [], []

    def start(self):
        for number, kind in enumerate(self.KINDS):
            one = kind(self.net, self.notes, f"{kind.__name__.lower()}{number}", type(self.chance)(self.chance.random()), self.slower)
            self.list.append(one)
            one.start()
        self.probes = [Probe(self.net, engine) for engine in range(len(self.net.engines))]
        for probe in self.probes:
            probe.start()
        return self

    def served_after(self, moment):
        """When any engine first answered for the state after that moment; None: not yet."""
        found = [at for probe in self.probes if (at := probe.first_after(moment)) is not None]
        return min(found) if found else None

    def stop(self):
        for one in [*self.list, *self.probes]:
            one.stopping.set()
        for probe in self.probes:
            probe.join()
        for one in self.list:
            one.stop()


class Zombie(Client):
    """What an engine that is stopped has seen alive is ended at the others; requests for it wait in the sockets of the stopped one, and
    are decided when it wakes. So are those for what it has never seen."""

    def before(self, victim):
        self.victim, self.open = victim, []
        self.seen = []
        for number in range(4):
            actor = f"{self.label}-{number}"
            token = self.mint(actor)
            if token is not None:
                self.use(token, actor, victim)
                self.act(actor, victim)
                self.seen.append((token, actor))

    def any(self):
        return self.chance.choice([number for number, engine in enumerate(self.net.engines) if number != self.victim and engine.process is not None])

    def asleep(self, until):
        self.until = until
        self.together(*[lambda one=one: self.end(*one) for one in enumerate(self.seen)], self.begin, self.begin)
        if self.fault is not None:
            raise self.fault

    def end(self, number, seen):
        token, actor = seen
        self.wait_in_line(token, actor)
        path, key, do = (f"/v1/tokens/{token[0]}", "agent", "revoke") if number % 2 else (f"/v1/actors/{actor}/suspend", "admin", "suspend")
        while (left := self.until - time.monotonic()) > 0.5:
            note, _ = self.note(do, "DELETE" if number % 2 else "POST", path, None if number % 2 else {}, key=key, timeout=left,
                                **({"token": token[0]} if number % 2 else {"actor": actor}))
            if note["status"] == 200:
                break
            time.sleep(0.2)
        self.wait_in_line(token, actor)

    def begin(self):
        for number in range(6):
            if self.until - time.monotonic() < 0.5:
                return
            actor = f"{self.label}-new-{number}-{threading.get_ident()}"
            token = self.mint(actor)
            if token is not None:
                self.wait_in_line(token, actor)

    def wait_in_line(self, token, actor):
        body = {"actor": actor, "action": "get_x"}
        self.send("use", AGENT, body, token[1], token=token[0], actor=actor)
        self.send("act", AGENT, body, "agent", actor=actor, action="get_x")
        self.send("introspect", "/v1/tokens/introspect", {"token": token[1]}, "agent", token=token[0])

    def send(self, do, path, body, key, **more):
        try:
            wire = Wire(self.net.engines[self.victim].address, self.net.keys.get(key, key), timeout=30.0).open()
            wire.send(wire.encode("POST", path, body))
        except OSError:
            return
        self.open.append((wire, {"do": do, "engine": self.victim, **more}))

    def collect(self, woken):
        """All answers. A stopped process decides nothing, so each was sent when it woke, as far as its decision goes."""
        for wire, note in self.open:
            try:
                reply = wire.read_reply()
                note |= {"sent": woken, "answered": time.monotonic(), "status": reply.status, "code": reply.json.get("code")}
                note |= {name: reply.json[name] for name in ("decision", "rule", "request_id", "active") if name in reply.json}
            except (Closed, OSError, ValueError):
                note |= {"sent": woken, "answered": None, "status": None, "code": None}
            wire.close()
            self.notes.put(note)

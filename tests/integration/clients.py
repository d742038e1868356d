"""Clients that write down what they were told (checker.Told), and go on whatever dies.

Load sends decisions on many connections, a batch at a time; Keeper lives through the lives of
tokens and reviews. Neither ever repeats a request by itself: what was cut off is unknown, and the
checker takes it as that.
"""

import json
import re
import socket
import struct
import threading
import time

from harness import eventually
from wire import PATIENCE, Closed, Wire

AGENT = "/v1/agent/authorize"
POLICY = """
rules:
  - {id: reads, agents: ["*"], actions: ["get_*"], decision: allow}
  - {id: refunds, agents: ["*"], actions: [issue_refund], decision: human_review, reason: Refunds need a person.,
     review: {expires_in: 7d, good_for: 24h}}
  - {id: drops, agents: ["*"], actions: ["drop_*"], decision: deny}
"""
HEAD = re.compile(rb"HTTP/1\.1 (\d+) [^\r]*\r\n(?:[^\r]+\r\n)*?content-length: (\d+)\r\n(?:[^\r]+\r\n)*?\r\n", re.I)


def cut(wire):
    """Ends a connection as a machine that is gone does: by a reset, with whatever was under way."""
    wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    wire.close()


class Load:
    """`depth` requests at a time on each of `connections`; `rate`: at most so many a second in all; every
    `review_every`th has to wait for a person."""

    def __init__(self, stack, told, name, connections=4, depth=8, rate=None, review_every=8):
        self.stack, self.told, self.name = stack, told, name
        self.connections, self.depth, self.rate, self.review_every = connections, depth, rate, review_every
        self.answered, self.refused, self.unanswered, self.slowest = 0, 0, 0, 0.0
        self.lock, self.stopping = threading.Lock(), threading.Event()
        self.faults, self.threads, self.number = [], [], 0

    def start(self):
        self.threads = [threading.Thread(target=self._drive, daemon=True) for _ in range(self.connections)]
        for thread in self.threads:
            thread.start()
        return self

    def stop(self):
        self.stopping.set()
        for thread in self.threads:
            thread.join(PATIENCE + 30)
            assert not thread.is_alive(), "a client waits for its answer for ever"
        if self.faults:
            raise self.faults[0]

    def _drive(self):
        try:
            while not self.stopping.is_set():
                try:
                    self._talk()
                except (Closed, OSError):
                    time.sleep(0.02)  # the engine is down: until it is up again
        except BaseException as fault:
            self.faults.append(fault)

    def _talk(self):
        with Wire(self.stack.engine.address, self.stack.keys["agent"]) as wire:
            due = time.monotonic()
            while not self.stopping.is_set():
                self._batch(wire)
                if self.rate:
                    due = max(due + self.depth * self.connections / self.rate, time.monotonic() - 1.0)
                    self.stopping.wait(max(0.0, due - time.monotonic()))

    def _request(self, wire, number, trace):
        action = "issue_refund" if number % self.review_every == 0 else "drop_x" if number % 8 == 1 else "get_x"
        actor = f"{self.name}-{number // 600}"  # a hundred reviews of one actor may be pending
        body = f'{{"action":"{action}","actor":"{actor}","trace_id":"{trace}","args":{{"n":{number}}}}}'
        return wire.encode("POST", AGENT, body)

    def _batch(self, wire):
        with self.lock:
            first = self.number
            self.number += self.depth
            self.unanswered += self.depth
        traces = [f"{self.name}.{first + k}" for k in range(self.depth)]
        got = 0
        try:
            self.told.tell({"sent": traces})
            begun = time.monotonic()
            wire.send(b"".join(self._request(wire, first + k, trace) for k, trace in enumerate(traces)))
            while got < self.depth:
                got += self._take(wire, traces[got:])
            self.slowest = max(self.slowest, time.monotonic() - begun)
        finally:
            with self.lock:
                self.unanswered -= self.depth - got

    def _take(self, wire, traces):
        """Reads what is there; tells of each whole reply. How many there were."""
        wire._more()
        records, at = [], 0
        for trace in traces:
            head = HEAD.match(wire.buffer, at)
            if head is None or len(wire.buffer) < head.end() + int(head[2]):
                break
            at = head.end() + int(head[2])
            records.append(answer_record(trace, int(head[1]), json.loads(wire.buffer[head.end():at])))
        wire.buffer = wire.buffer[at:]
        if records:
            self.told.tell(*records)
        refused = sum("refused" in record for record in records)
        with self.lock:
            self.unanswered -= len(records)
            self.refused += refused
            self.answered += len(records) - refused
        return len(records)


def wait_for_unanswered(load, count):
    """Until at least `count` requests wait for their answer; gives how many."""
    return eventually(lambda: (now := load.unanswered) >= count and now, f"{count} requests are under way")


def answer_record(trace, status, body, follow=False):
    if status != 200:
        return {"refused": trace, "status": status, "code": body.get("code")}
    assert body["trace_id"] == trace, "an answer out of order"
    record = {"answer": trace, "request_id": body["request_id"], "decision": body["decision"], "output_hash": body["output_hash"]}
    if "review_id" in body:
        record |= {"review_id": body["review_id"], **({"follow": True} if follow else {})}
    return record


class Unknown(Exception):
    """No answer, or one that does not say what became of it."""


class Keeper:
    """Tokens minted, used, revoked; reviews asked for, resolved, redeemed: one client, one step at a time."""

    def __init__(self, stack, told, name, reviewer, chance, most=60):
        self.stack, self.told, self.name, self.reviewer, self.chance = stack, told, name, reviewer, chance
        self.most = most  # of each kind: they are all asked for at the end
        self.tokens, self.reviews = {}, {}  # id -> (token, max_uses); id -> [its state, its body]
        self.number, self.steps = 0, 0
        self.stopping, self.faults, self.thread = threading.Event(), [], None

    def start(self):
        self.stopping.clear()
        self.thread = threading.Thread(target=self._live, daemon=True)
        self.thread.start()
        return self

    def stop(self):
        self.stopping.set()
        self.thread.join(PATIENCE + 30)
        assert not self.thread.is_alive(), "a client waits for its answer for ever"
        if self.faults:
            raise self.faults[0]

    def _live(self):
        try:
            while not self.stopping.is_set():
                try:
                    self.step()
                except Unknown:
                    time.sleep(0.05)
                self.stopping.wait(0.01)
        except BaseException as fault:
            self.faults.append(fault)

    # ---- talking ----

    def _say(self, method, path, key, body=None):
        """One request on a connection of its own; Unknown where that brings no answer."""
        try:
            with Wire(self.stack.engine.address, self.stack.keys.get(key, key)) as wire:
                wire.send(wire.encode(method, path, body))
                reply = wire.read_reply()
        except (Closed, OSError) as cut_off:
            raise Unknown from cut_off
        if reply.status >= 500:
            raise Unknown(repr(reply))
        return reply

    def _decide(self, key, follow=False, **body):
        """A decision, written down; (the reply, the body)."""
        self.number += 1
        trace = f"{self.name}.{self.number}"
        body["trace_id"] = trace
        self.told.tell({"sent": [trace]})
        reply = self._say("POST", AGENT, key, body)
        if reply.status != 401:
            self.told.tell(answer_record(trace, reply.status, reply.json, follow))
        return reply, body

    # ---- steps ----

    def step(self):
        self.steps += 1
        steps = []
        if len(self.tokens) < self.most:
            steps.append(self.mint)
        if len(self.reviews) < self.most:
            steps.append(self.enqueue)
        if self.tokens:
            steps += [self.use_one, self.use_one, self.revoke]
        if any(state in ("pending", "approved") for state, _ in self.reviews.values()):
            steps += [self.move_review, self.move_review]
        self.chance.choice(steps)()

    def mint(self):
        uses = self.chance.choice([None, None, 3])
        self.told.tell({"asks": "mint"})
        body = {"scope": "get_*", "actor": "bot", "ttl_seconds": 86400, **({"max_uses": uses} if uses else {})}
        reply = self._say("POST", "/v1/tokens/mint", "agent", body)
        assert reply.status == 201, reply
        self.told.tell({"told": "mint", "id": reply.json["token_id"], "token": reply.json["token"], "max_uses": uses})
        self.tokens[reply.json["token_id"]] = (reply.json["token"], uses)

    def use_one(self):
        id = self.chance.choice(list(self.tokens))
        self.use(self.tokens[id][0], id)

    def use(self, token, id):
        """"allow", "spent" or "refused"."""
        self.told.tell({"asks": "use", "id": id})
        reply, _ = self._decide(token, action="get_x")
        said = "refused" if reply.status == 401 else "allow" if reply.json["decision"] == "allow" else \
            "spent" if reply.json["rule"] == "token:uses" else reply.json["rule"]
        self.told.tell({"told": "use", "id": id, "result": said})
        return said

    def revoke(self):
        if self.chance.random() > 0.3:
            return
        id = self.chance.choice(list(self.tokens))
        self.told.tell({"asks": "revoke", "id": id})
        reply = self._say("DELETE", f"/v1/tokens/{id}", "agent")
        assert reply.status == 200, reply
        self.told.tell({"told": "revoke", "id": id})

    def enqueue(self):
        reply, body = self._decide("agent", follow=True, action="issue_refund", actor=f"{self.name}-bot-{self.number // 50}", args={"n": self.number})
        assert reply.json["decision"] == "human_review", reply
        self.reviews[reply.json["review_id"]] = ["pending", body]

    def move_review(self):
        id = self.chance.choice([id for id, (state, _) in self.reviews.items() if state in ("pending", "approved")])
        state, body = self.reviews[id]
        change = self.chance.choice(["approve", "approve", "deny", "cancel"]) if state == "pending" else "redeem"
        self.told.tell({"asks": change, "id": id})
        self.reviews[id][0] = "unknown"  # and so it stays if no answer comes
        if change == "redeem":
            result = self._redeem(id, body)
        else:
            reply = self._say("POST", f"/v1/queue/{id}/{change}", "agent" if change == "cancel" else self.reviewer)
            assert reply.status == 200, reply
            result = "done"
        self.told.tell({"told": change, "id": id, "result": result})
        self.reviews[id][0] = {"approve": "approved", "redeem": "redeemed"}.get(change, "ended")

    def _redeem(self, id, body):
        trace = f"{body['trace_id']}.redeemed"
        self.told.tell({"sent": [trace]})
        reply = self._say("POST", f"/v1/queue/{id}/redeem", "agent", {**body, "trace_id": trace})
        assert reply.status == 200, reply
        self.told.tell(answer_record(trace, 200, reply.json))
        return "done" if reply.json["allowed"] else reply.json["rule"].removeprefix("review:")

    def review(self, id):
        """For the checker: what the service says of a review."""
        reply = self._say("GET", f"/v1/queue/{id}", self.reviewer)
        return reply.json["status"] if reply.status == 200 else f"{reply.status}"

"""Load that is meant to be interrupted: it remembers what it sent and what was answered.

Every request carries a trace id of its own, so the store can be asked: is each answered decision
there exactly once, with the hash that was answered, and is nothing there that was never sent?
"""

import threading
import time

from wire import Closed, Wire

AGENT = "/v1/agent/authorize"


class Traffic:
    """Keeps `depth` requests unanswered on each of `connections` until stopped."""

    def __init__(self, stack, name, connections=8, depth=8):
        self.stack, self.name = stack, name
        self.connections, self.depth = connections, depth
        self.sent, self.answered, self.refused = set(), {}, {}
        self.number = 0
        self.stopping = threading.Event()
        self.lock = threading.Lock()
        self.faults = []
        self.unanswered = 0
        self.threads = []

    def start(self):
        self.threads = [threading.Thread(target=self.drive, args=(lane,)) for lane in range(self.connections)]
        for thread in self.threads:
            thread.start()
        return self

    def stop(self):
        self.stopping.set()
        for thread in self.threads:
            thread.join()
        if self.faults:
            raise self.faults[0]

    def drive(self, lane):
        try:
            while not self.stopping.is_set():
                try:
                    self.talk(lane)
                except (Closed, OSError):
                    time.sleep(0.01)  # the engine is down: until it is up again
        except BaseException as fault:
            self.faults.append(fault)

    def talk(self, lane):
        pending = []
        try:
            with Wire(self.stack.engine.address, self.stack.keys["agent"], timeout=60) as wire:
                while True:
                    while len(pending) < self.depth and not self.stopping.is_set():
                        with self.lock:
                            self.number += 1
                            trace = f"{self.name}.{self.number}"
                            self.sent.add(trace)
                            self.unanswered += 1
                        pending.append(trace)
                        action = "issue_refund" if self.number % 7 == 0 else "get_x"
                        actor = f"{self.name}-{self.number // 600}"  # a hundred reviews of one actor may be pending
                        wire.send(wire.encode("POST", AGENT, {"action": action, "actor": actor, "trace_id": trace, "args": {"n": self.number}}))
                    if not pending:
                        return
                    reply = wire.read_reply()
                    trace = pending.pop(0)
                    with self.lock:
                        self.unanswered -= 1
                        if reply.status == 200:
                            assert reply.json["trace_id"] == trace, "an answer out of order"
                            self.answered[trace] = reply.json
                        else:
                            self.refused[trace] = reply.status
                    if (reply.header("connection") or "").lower() == "close":
                        return
        finally:
            with self.lock:
                self.unanswered -= len(pending)

    def check_store(self, must_hold=True):
        """Compares with what is stored. Gives (answered, stored but unanswered)."""
        events = [e for e in self.stack.events() if e["trace_id"].startswith(self.name + ".")]
        decisions, reviews, ids = {}, {}, set()
        for event in events:
            assert event["event_id"] not in ids, f"{event['event_id']} is stored twice"
            ids.add(event["event_id"])
            by_trace = decisions if event["kind"] == "decision" else reviews
            assert event["trace_id"] not in by_trace, f"{event['kind']} of {event['trace_id']} is stored twice"
            by_trace[event["trace_id"]] = event
        lost = [trace for trace in self.answered if trace not in decisions]
        if must_hold:
            assert not lost, f"{len(lost)} answered decisions are not stored, such as {lost[:5]}"
        phantom = set(decisions) - self.sent
        assert not phantom, f"stored and never sent: {sorted(phantom)[:5]}"
        for trace, answer in self.answered.items():
            if trace in decisions:
                assert decisions[trace]["output_hash"] == answer["output_hash"], trace
                assert decisions[trace]["request_id"] == answer["request_id"], trace
                if answer["decision"] == "human_review" and must_hold:
                    assert reviews[trace]["review_id"] == answer["review_id"], trace
        places = [(e["source"]["node"], e["source"]["journal"], e["source"]["seq"]) for e in events]
        assert len(set(places)) == len(places), "two events have one place"
        return len(self.answered), len(set(decisions) - set(self.answered))


def wait_for_unanswered(traffic, count, seconds=30):
    """Until at least `count` requests wait for their answer; gives how many."""
    deadline = time.monotonic() + seconds
    while True:
        now = traffic.unanswered
        if now >= count:
            return now
        assert time.monotonic() < deadline, f"only {now} requests are unanswered"
        time.sleep(0.0005)

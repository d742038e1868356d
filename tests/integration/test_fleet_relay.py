"""A fleet of three engines: each step of a story is sent to another engine, and the answers are those of one."""

import pathlib
import signal
import struct
import threading

import pytest

from harness import Program, Wire, eventually, free_port
from test_fleet_log import FleetOfOne, behind_way
from way import Way

POLICY = """
rules:
  - id: reads
    agents: ["*"]
    actions: ["get_*"]
    decision: allow
  - id: people
    users: ["*"]
    actions: ["read_*"]
    decision: allow
  - id: pays
    agents: ["*"]
    actions: ["pay_*"]
    decision: human_review
  - id: mails
    agents: ["*"]
    actions: ["mail_*"]
    decision: allow
    limit: {count: 3, per: actor, window: 1h}
  - id: never
    agents: ["*"]
    actions: ["drop_*"]
    decision: deny
"""


class FleetOfThree(FleetOfOne):
    def __init__(self, broker, folder):
        super().__init__(broker, folder)
        arguments = list(self.engine.arguments)
        self.engines = [self.engine]
        for i in (1, 2):
            more = Program("writ-engine", free_port(), [], folder / f"engine{i}.log")
            more.arguments = list(arguments)
            for option, value in (("--data", folder / f"engine{i}-data"), ("--listen", f"127.0.0.1:{more.port}")):
                more.arguments[more.arguments.index(option) + 1] = str(value)
            self.engines.append(more)
        for engine in self.engines:
            engine.arguments[engine.arguments.index("--fleet.advertise") + 1] = engine.url
        self.ways = [behind_way(broker, engine) for engine in self.engines]

    def start(self):
        self.seed()
        self.keys["reviewer"] = self.key("rita", ["reviewer"], owner="rita", reviewers=["*"])
        for engine in self.engines[1:]:
            engine.start()
        self.policy("all", POLICY)
        self.wait_all()
        return self

    def wait_all(self):
        newest = self.metrics(self.platform)["writ_platform_bundle_revision"]
        for engine in self.engines:
            if engine.process is not None:
                eventually(lambda e=engine: self.metrics(e)["writ_engine_bundle_revision"] >= newest, f"{engine.log} follows")

    def close(self):
        for engine in self.engines[1:]:
            engine.end()
        super().close()
        for way in self.ways:
            way.close()

    def at(self, number, key="agent"):
        return Wire(self.engines[number % 3].address, self.keys.get(key, key))

    def data_of(self, number):
        arguments = self.engines[number].arguments
        return pathlib.Path(arguments[arguments.index("--data") + 1])

    def snapshots(self, number):
        """Its files, the newest first."""
        return sorted((self.data_of(number) / "engine/fleet-snapshots").glob("fleet-" + "?" * 16), reverse=True)

    def has_all(self, file, leads):
        """Whether this snapshot has all records of the fleet, and the platform has them."""
        now, head = self.metrics(self.engines[leads]), file.read_bytes()
        peers, = struct.unpack_from("<I", head, 12)
        next_seq, = struct.unpack_from("<Q", head, 240 + 48 * peers)
        return now["writ_engine_fleet_publish_lag_records"] == 0 and next_seq == now["writ_engine_fleet_publish_confirmed_seq"] + 1

    def leads(self, number):
        return self.metrics(self.engines[number])["writ_engine_fleet_leads"] == 1

    def leader(self):
        return eventually(lambda: [number for number in range(3) if self.leads(number)], "an engine leads")[0]


class FleetBehindDoors(FleetOfThree):
    """The engines reach each other by ways of their own."""

    def __init__(self, broker, folder):
        super().__init__(broker, folder)
        self.doors = [Way(("127.0.0.1", engine.port)) for engine in self.engines]
        for engine, door in zip(self.engines, self.doors):
            engine.arguments[engine.arguments.index("--fleet.advertise") + 1] = f"http://{door.address}"

    def open_door(self, number):
        self.doors[number] = Way(("127.0.0.1", self.engines[number].port), port=self.doors[number].port)

    def close(self):
        super().close()
        for door in self.doors:
            door.close()


@pytest.fixture(scope="module")
def fleet(broker, tmp_path_factory):
    three = FleetBehindDoors(broker, tmp_path_factory.mktemp("three"))
    try:
        yield three.start()
    finally:
        three.close()


@pytest.fixture
def step(fleet):
    """Sends each request to the next engine, over a connection of its own."""
    count = iter(range(1, 1000000))

    def send(method, path, body=None, key="agent", headers=None, at=None):
        with fleet.at(next(count) if at is None else at, key) as wire:
            return wire.request(method, path, body, headers=headers or {})
    return send


def relays(fleet, number):
    """{result: how many} of an engine."""
    return {name.split('"')[1]: int(value) for name, value in fleet.metrics(fleet.engines[number]).items() if "fleet_relays_total" in name}


def listed(reply):
    return next(value for value in reply.json.values() if isinstance(value, list))


def authorize(step, actor, action, **more):
    return step("POST", "/v1/agent/authorize", {"actor": actor, "action": action}, **more)


def test_a_review_is_one_review_at_all_engines(step):
    asked = authorize(step, "payer", "pay_invoice")
    assert asked.status == 200 and asked.json["decision"] == "human_review", asked
    review = asked.json["review_id"]
    again = authorize(step, "payer", "pay_invoice")
    assert again.json["review_id"] == review, again
    for _ in range(3):
        seen = step("GET", f"/v1/queue/{review}")
        assert seen.status == 200 and seen.json["status"] == "pending", seen
        assert any(item["id"] == review for item in listed(step("GET", "/v1/queue/pending", key="reviewer")))
    waited = []
    waiters = [threading.Thread(target=lambda n=n: waited.append(step("GET", f"/v1/queue/{review}/wait?timeout_ms=60000", at=n)))
               for n in range(3)]
    for waiter in waiters:
        waiter.start()
    approved = step("POST", f"/v1/queue/{review}/approve", {"note": "fine"}, key="reviewer")
    assert approved.status == 200 and approved.json["status"] == "approved", approved
    for waiter in waiters:
        waiter.join()
    assert [reply.json["status"] for reply in waited] == ["approved"] * 3, waited
    assert step("POST", f"/v1/queue/{review}/deny", {}, key="reviewer").status == 409
    body = {"actor": "payer", "action": "pay_invoice"}
    redeemed = step("POST", f"/v1/queue/{review}/redeem", body)
    assert redeemed.status == 200 and redeemed.json["decision"] == "allow", redeemed
    for _ in range(3):
        reply = step("POST", f"/v1/queue/{review}/redeem", body)
        assert reply.status == 200 and reply.json["decision"] == "deny", reply


def test_a_token_is_known_and_ended_at_all_engines(step):
    for _ in range(3):  # each engine mints one
        minted = step("POST", "/v1/tokens/mint", {"scope": "*", "actor": "reader", "ttl_seconds": 600})
        assert minted.status == 201, minted
        token, text = minted.json["token_id"], minted.json["token"]
        for _ in range(3):  # no 401 right after it was minted
            reply = authorize(step, "reader", "get_x", key=text)
            assert reply.status == 200 and reply.json["decision"] == "allow", reply
        assert step("POST", "/v1/tokens/introspect", {"token": text}).json["active"] is True
        assert step("DELETE", f"/v1/tokens/{token}", key="admin").status in (200, 204)
        for _ in range(6):
            reply = authorize(step, "reader", "get_x", key=text)
            assert reply.status == 401, reply
        for _ in range(3):
            assert step("POST", "/v1/tokens/introspect", {"token": text}).json["active"] is False


def test_a_tokens_uses_are_counted_together(step):
    minted = step("POST", "/v1/tokens/mint", {"scope": "*", "actor": "user5", "ttl_seconds": 600, "max_uses": 5})
    text = minted.json["token"]
    decisions = [authorize(step, "user5", "get_x", key=text).json["decision"] for _ in range(9)]
    assert decisions == ["allow"] * 5 + ["deny"] * 4, decisions


def test_a_limit_is_one_limit(step):
    decisions = [authorize(step, "mailer", "mail_x").json["decision"] for _ in range(6)]
    assert decisions == ["allow"] * 3 + ["deny"] * 3, decisions
    batch = step("POST", "/v1/authorize/batch", {"requests": [{"actor": "mailer2", "action": "mail_x"}] * 2 +
                                                 [{"actor": "mailer2", "action": "get_x"}]})
    assert [item["decision"] for item in batch.json["decisions"]] == ["allow"] * 3, batch
    assert [authorize(step, "mailer2", "mail_x").json["decision"] for _ in range(2)] == ["allow", "deny"]


def test_the_kill_switch_holds_at_all_engines(step):
    text = step("POST", "/v1/tokens/mint", {"scope": "*", "actor": "rogue", "ttl_seconds": 600}).json["token"]
    for _ in range(3):
        assert authorize(step, "rogue", "get_x").json["decision"] == "allow"
        assert authorize(step, "rogue", "get_x", key=text).json["decision"] == "allow"
    assert step("POST", "/v1/actors/rogue/suspend", {"reason": "loops"}, key="admin").status == 200
    for _ in range(6):
        reply = authorize(step, "rogue", "get_x")
        assert reply.json["decision"] == "deny" and reply.json["rule"] == "actor:suspended", reply
        assert authorize(step, "rogue", "get_x", key=text).status == 401
    for _ in range(3):
        assert "rogue" in [item["actor"] for item in listed(step("GET", "/v1/actors", key="admin"))]
    assert step("POST", "/v1/actors/rogue/resume", {}, key="admin").status == 200
    for _ in range(6):
        assert authorize(step, "rogue", "get_x").json["decision"] == "allow"
        assert authorize(step, "rogue", "get_x", key=text).status == 401  # it stays dead


def test_a_repeated_request_has_one_outcome(step):
    headers = {"Idempotency-Key": "once-and-only-once"}
    replies = [authorize(step, "payer", "pay_twice", headers=headers) for _ in range(4)]
    assert len({reply.json["review_id"] for reply in replies}) == 1, replies
    minted = [step("POST", "/v1/tokens/mint", {"scope": "*", "actor": "once", "ttl_seconds": 600},
                   headers={"Idempotency-Key": "mint-once-and-only-once"}) for _ in range(4)]
    assert len({reply.json["token_id"] for reply in minted}) == 1, minted


def test_a_relayed_request_is_for_the_leader_of_that_term_only(fleet, step):
    leads = fleet.leader()
    body = {"scope": "*", "actor": "reader", "ttl_seconds": 600}
    mint = ("POST", "/v1/tokens/mint", body)
    term = int(fleet.metrics(fleet.engines[leads])["writ_engine_fleet_term"])
    served = step(*mint, headers={"Writ-Relay": f"b/{term}"}, at=leads)
    assert served.status == 201, served
    for number, header in ((leads, f"b/{term + 1}"), (leads + 1, f"b/{term}"), (leads + 2, f"b/{term}")):
        reply = step(*mint, headers={"Writ-Relay": header}, at=number)
        assert reply.status == 503 and reply.json["code"] == "leader_changed", (number, header, reply)
        assert reply.header("Retry-After") == "1"
    reply = step(*mint, headers={"Writ-Relay": "nonsense"}, at=leads)
    assert reply.status == 400 and reply.json["code"] == "bad_header", reply


def test_plain_decisions_are_the_engines_own(fleet, step):
    """They stay in its own journal; what is relayed is recorded by the leader alone."""
    before = [fleet.metrics(engine)["writ_engine_journal_seq"] for engine in fleet.engines]
    replica = (fleet.leader() + 1) % 3
    for _ in range(5):
        assert authorize(step, "plain", "get_x", at=replica).json["decision"] == "allow"
        assert authorize(step, "plain", "drop_x", at=replica).json["decision"] == "deny"
        assert step("POST", "/v1/authorize", {"user_id": "ann", "action": "read_x"}, at=replica).json["decision"] == "allow"
    batch = step("POST", "/v1/authorize/batch", {"requests": [{"actor": "plain", "action": "get_x"}] * 3}, at=replica)
    assert [item["decision"] for item in batch.json["decisions"]] == ["allow"] * 3, batch
    reply = step("POST", "/access/v1/evaluation", {"subject": {"type": "agent", "id": "plain"}, "action": {"name": "get_x"},
                                                   "resource": {"type": "db", "id": "1"}}, at=replica)
    assert reply.status == 200 and reply.json["decision"] is True, reply
    middle = [fleet.metrics(engine)["writ_engine_journal_seq"] for engine in fleet.engines]
    assert middle[replica] - before[replica] == 19, (before, middle)
    relayed = relays(fleet, replica)["answered"]
    for _ in range(5):
        assert authorize(step, "relayed", "pay_x", at=replica).json["decision"] == "human_review"
    assert relays(fleet, replica)["answered"] == relayed + 5
    assert fleet.metrics(fleet.engines[replica])["writ_engine_journal_seq"] == middle[replica]


def test_an_engine_that_is_cut_from_the_log_lets_no_agent_in(fleet, step):
    """A suspension is answered when the lease of that engine has ended: it cannot let the actor in any more."""
    leads, cut = fleet.leader(), 2
    assert leads != cut
    text = step("POST", "/v1/tokens/mint", {"scope": "*", "actor": "plain", "ttl_seconds": 600}, at=leads).json["token"]
    assert authorize(step, "plain", "get_x", key=text, at=cut).json["decision"] == "allow"
    fleet.ways[cut].lose(b"writ-fleet-")
    suspended = step("POST", "/v1/actors/gone/suspend", {"reason": "loops"}, key="admin", at=leads)
    assert suspended.status == 200, suspended
    for actor, action, key in (("gone", "get_x", "agent"), ("plain", "get_x", "agent"), ("plain", "get_x", text), ("plain", "pay_x", "agent"),
                               ("plain", "mail_x", "agent")):
        reply = authorize(step, actor, action, key=key, at=cut)
        assert reply.status == 503 and reply.json["code"] == "fleet_stale", (actor, action, reply)
    assert step("GET", "/readyz", at=cut).status == 503
    assert step("POST", "/v1/authorize", {"user_id": "ann", "action": "read_x"}, at=cut).json["decision"] == "allow"
    for number in {0, 1, 2} - {cut}:
        assert authorize(step, "plain", "get_x", at=number).json["decision"] == "allow"
    fleet.ways[cut].lose()
    eventually(lambda: authorize(step, "plain", "get_x", at=cut).status == 200, "it lets agents in again")
    assert authorize(step, "plain", "get_x", key=text, at=cut).json["decision"] == "allow"
    assert authorize(step, "gone", "get_x", at=cut).json["decision"] == "deny"
    fleet.engines[cut].wait_ready()


def test_an_engine_that_is_cut_from_the_leader_only_decides_what_is_plain(fleet, step):
    leads = fleet.leader()
    replicas = [number for number in range(3) if number != leads]
    review = authorize(step, "cut", "pay_before", at=replicas[0]).json["review_id"]
    requests = [("POST", "/v1/agent/authorize", {"actor": "cut", "action": "pay_x"}), ("POST", "/v1/agent/authorize", {"actor": "cut", "action": "mail_x"}),
                ("POST", "/v1/tokens/mint", {"scope": "*", "actor": "cut", "ttl_seconds": 600}), ("GET", f"/v1/queue/{review}")]
    fleet.doors[leads].close()
    for number in replicas:
        eventually(lambda n=number: step("GET", f"/v1/queue/{review}", at=n).status == 503, "its connections have ended")
        for request in requests:
            reply = step(*request, at=number)
            assert reply.status == 503 and reply.json["code"] == "no_leader", (request, reply)
        assert authorize(step, "cut", "get_x", at=number).json["decision"] == "allow"
        assert authorize(step, "cut", "drop_x", at=number).json["decision"] == "deny"
    assert fleet.leads(leads)
    fleet.open_door(leads)
    for number in replicas:
        eventually(lambda n=number: step("GET", f"/v1/queue/{review}", at=n).status == 200, "it reaches the leader")
    # nothing of what was refused was done
    assert [authorize(step, "cut", "mail_x").json["decision"] for _ in range(4)] == ["allow"] * 3 + ["deny"]
    pending = listed(step("GET", "/v1/queue/pending?limit=500", key="reviewer"))
    assert [item["id"] for item in pending if item["actor"] == "cut"] == [review], pending


def test_what_waits_for_a_kafka_that_is_away_is_done_once(fleet, step):
    """Longer than the lease: agents are refused at all engines, people's decisions go on."""
    leads = fleet.leader()
    for way in fleet.ways:
        way.lose(b"")
    requests = [("/v1/agent/authorize", {"actor": "away", "action": "mail_x"}), ("/v1/agent/authorize", {"actor": "away", "action": "pay_x"}),
                ("/v1/tokens/mint", {"scope": "*", "actor": "away", "ttl_seconds": 600})]
    parked = {}

    def ask(number):
        parked[number] = step("POST", *requests[number], at=leads)
    asking = [threading.Thread(target=ask, args=(number,)) for number in range(len(requests))]
    for thread in asking:
        thread.start()
    for number in range(3):
        eventually(lambda n=number: authorize(step, "plain", "get_x", at=n).status == 503, "its lease has ended")
        reply = authorize(step, "away", "pay_y", at=number)
        assert reply.status == 503 and reply.json["code"] == "fleet_stale", reply
        assert step("GET", "/readyz", at=number).status == 503
        assert step("POST", "/v1/authorize", {"user_id": "ann", "action": "read_x"}, at=number).json["decision"] == "allow"
    for way in fleet.ways:
        way.lose()
    for thread in asking:
        thread.join()
    for number in range(3):
        eventually(lambda n=number: authorize(step, "plain", "get_x", at=n).status == 200, "it lets agents in again")
    left = [authorize(step, "away", "mail_x").json["decision"] for _ in range(4)]
    pending = listed(step("GET", "/v1/queue/pending?limit=500", key="reviewer"))
    tokens = listed(step("GET", "/v1/tokens?limit=500&actor=away", key="admin"))
    done = [3 - left.count("allow"), [item["actor"] for item in pending].count("away"), [item["actor"] for item in tokens].count("away")]
    for times, reply in zip(done, (parked[number] for number in range(3))):
        if reply.status == 503:  # the lease had ended where it was to be recorded, or another engine took over
            assert times <= (reply.json["code"] == "outcome_unknown") and reply.json["code"] in ("fleet_stale", "leader_changed", "outcome_unknown"), reply
        else:
            assert reply.status in (200, 201) and times == 1, (times, reply)


def test_another_leader_is_asked_what_the_former_has_not_answered(fleet, step):
    """The leader hangs, and is replaced. Meanwhile the others decide what is plain. It wakes, and answers what its log did not take."""
    review = authorize(step, "patient", "pay_rent").json["review_id"]
    text = step("POST", "/v1/tokens/mint", {"scope": "*", "actor": "patient", "ttl_seconds": 600}).json["token"]
    leads = fleet.leader()
    replica, others = (leads + 1) % 3, [number for number in range(3) if number != leads]
    parked = []
    fleet.ways[leads].lose(b"writ-fleet-entries")
    requests = [("/v1/tokens/mint", {"scope": "*", "actor": f"parked-{n}", "ttl_seconds": 600}) for n in range(4)]
    requests += [("/v1/agent/authorize", {"actor": f"parked-{n}", "action": "mail_x"}) for n in range(12)]  # counted at another reactor
    sending = [threading.Thread(target=lambda r=r: parked.append(step("POST", *r, at=leads))) for r in requests]
    for thread in sending:
        thread.start()
    eventually(lambda: fleet.metrics(fleet.engines[leads])["writ_engine_replies_parked"] >= 16, "all wait for the log")
    fleet.engines[leads].signal(signal.SIGSTOP)
    answers = {}

    def ask(name, *request, **more):
        answers[name] = step(*request, at=replica, **more)
    asking = [threading.Thread(target=ask, args=("wait", "GET", f"/v1/queue/{review}/wait?timeout_ms=60000")),
              threading.Thread(target=ask, args=("approve", "POST", f"/v1/queue/{review}/approve", {}), kwargs={"key": "reviewer"})]
    for thread in asking:
        thread.start()
    for _ in range(20):
        assert authorize(step, "plain", "get_x", at=replica).json["decision"] == "allow"
    eventually(lambda: any(fleet.leads(number) for number in others), "another engine leads")
    asking[1].join()
    assert answers["approve"].status == 503 and answers["approve"].json["code"] == "outcome_unknown", answers
    assert relays(fleet, replica)["outcome_unknown"] >= 1
    approved = eventually(lambda: [reply for reply in [step("POST", f"/v1/queue/{review}/approve", {}, key="reviewer", at=replica)]
                                   if reply.status != 503], "the review is approved")[0]
    assert approved.status == 200 and approved.json["status"] == "approved", approved
    asking[0].join()
    assert answers["wait"].status == 200 and answers["wait"].json["status"] == "approved", answers
    fleet.engines[leads].signal(signal.SIGCONT)
    for thread in sending:
        thread.join()
    assert [(reply.status, reply.json["code"]) for reply in parked] == [(503, "outcome_unknown")] * 16, parked
    assert {reply.header("Retry-After") for reply in parked} == {"1"}
    assert fleet.engines[leads].wait() == 1  # it ends, and its supervisor starts it again
    fleet.ways[leads].lose()
    fleet.engines[leads].start()
    for number in range(3):
        assert step("GET", f"/v1/queue/{review}", at=number).json["status"] == "approved"
        assert authorize(step, "patient", "get_x", key=text, at=number).json["decision"] == "allow"

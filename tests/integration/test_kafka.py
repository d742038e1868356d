"""Records by way of a real Kafka: published, read, stored once, whatever dies on the way."""

import base64
import json
import re
import signal
import time

import confluent_kafka
import pytest

import run_mac
from kafka_rig import Broker, Rig, Stack, eventually
from survivors import FORGETFUL, back_up, decide, decide_until_forgotten, gap_advice, restore
from way import Way
from wire import Wire


@pytest.fixture
def rig(broker, tmp_path):
    broker.start()  # one that an earlier test left dead
    one = Rig(broker, tmp_path)
    yield one
    one.close()


def test_what_is_published_is_in_the_topic_and_in_the_store_once(rig):
    rig.platform.start()
    driver = rig.driver().start()
    driver.append(2000)
    driver.wait_confirmed()
    rig.check(driver)
    ends = rig.broker.ends(rig.topic)
    assert len(ends) == 4 and sorted(ends.values()) == [0, 0, 0, len(driver.acked)], "one engine, one partition"
    assert driver.stop() == "stopped drained"
    rig.platform.stop()


def span_of(event_id):
    """The last 64 bits of an event's id: the id of the engine's span, where there is one (Crockford's base 32)."""
    number = 0
    for digit in event_id[4:]:
        number = number * 32 + "0123456789ABCDEFGHJKMNPQRSTVWXYZ".index(digit)
    return f"{number % 2**64:016x}"


def test_a_message_is_what_the_contract_says(rig):
    rig.platform.start()
    driver = rig.driver().start()
    driver.append(5)
    driver.wait_confirmed()
    messages = rig.broker.read(rig.topic, 6)
    assert len(messages) == 6 and len({message["partition"] for message in messages}) == 1
    stored = dict(rig.rows("SELECT seq, event FROM records"))
    pepper = (rig.stack.data / "pepper").read_text()
    for seq, message in enumerate(messages, 1):
        headers, event = message["headers"], json.loads(message["value"])
        assert message["value"] == stored[seq], "the value is the event's JSON, byte for byte"
        assert message["key"] == event.get("trace_id", "null")
        assert headers["event_id"] == event["event_id"] == driver.acked[seq]
        assert (headers["kind"], headers["tenant_id"], headers["schema"]) == (event["kind"], "default", "writ.audit/1")
        assert (headers["node"], headers["journal"], headers["seq"]) == ("node-1", "0", str(seq))
        assert len(headers["epoch"]) == 16
        covered = [headers.get(name, "") for name in ("checkpoint", "frontier")]
        assert headers["mac"] == run_mac.mac(run_mac.key(pepper, "node-1"), headers["epoch"], seq, [message["value"].encode()],
                                             int(headers.get("from_seq", 0)), *covered)
        if "trace_id" in event:
            assert headers["traceparent"] == f"00-{event['trace_id']}-{span_of(event['event_id'])}-00"
        else:
            assert "traceparent" not in headers
    last = base64.b64decode(messages[-1]["headers"]["checkpoint"]).decode().split("\n")
    assert last[:2] == ["writ/node-1/0/1", "6"] and rig.rows("SELECT max(end_seq) FROM checkpoints") == [(6,)]


def test_a_broker_that_is_killed_costs_nothing_but_time(rig):
    rig.platform.start()
    driver = rig.driver().start()
    for _ in range(2):
        driver.append(3000)
        rig.broker.kill()
        driver.append(3000)
        assert driver.status()["state"] != "misfit"
        rig.broker.start()
    driver.append(1000)
    driver.wait_confirmed()
    rig.check(driver)
    assert eventually(lambda: rig.health()["status"] == "ok", "the platform is well again")


def test_a_platform_that_is_killed_goes_on_where_its_store_stands(rig):
    rig.platform.start()
    drivers = [rig.driver(f"node-{number}").start() for number in range(3)]
    for _ in range(3):
        for driver in drivers:
            driver.append(2000)
        rig.platform.kill()
        for driver in drivers:
            driver.append(500)
        rig.platform.start()
    for driver in drivers:
        driver.wait_confirmed()
    rig.check(*drivers)


def test_redelivery_is_harmless(rig):
    rig.consume(False)
    rig.platform.start()  # answers positions, and reads nothing
    driver = rig.driver()
    for _ in range(3):
        driver.start()
        driver.append(400)
        driver.wait_delivered()
        assert driver.stop() == "stopped drained"
    in_topic = sum(rig.broker.ends(rig.topic).values())
    doubled = in_topic - len(driver.acked)
    assert doubled > 0, "nothing was delivered twice: this test shows nothing"
    rig.platform.stop()
    rig.consume(True)
    rig.platform.start()
    rig.wait_stored(driver)
    eventually(lambda: rig.metric("consumer_messages_total") == in_topic, "the whole topic is read")
    rig.check(driver)
    assert rig.metric("ingest_duplicates_total") == doubled
    print(f"{doubled} duplicates in the topic, 0 in the store")


def test_a_topic_that_is_truncated_is_told_and_its_records_come_again(rig):
    rig.platform.start()
    driver = rig.driver().start()
    driver.append(1000)
    driver.wait_confirmed()
    rig.platform.kill()
    driver.append(1000)
    driver.wait_delivered()
    rig.broker.truncate(rig.topic, {partition: end for partition, end in rig.broker.ends(rig.topic).items() if end})
    rig.platform.start()
    rig.wait_stored(driver)
    rig.check(driver)
    assert rig.logged("consume_offset_gone"), "the log has no such line"
    assert rig.metric("consumer_resets_total") == 1
    assert driver.replays() >= 1


def test_a_topic_that_is_deleted_under_everybody_is_made_again_and_loses_nothing(rig):
    rig.platform.start()
    driver = rig.driver().start()
    driver.append(1000)
    driver.wait_confirmed()
    rig.broker.delete(rig.topic)
    eventually(lambda: rig.health()["status"] == "degraded", "the platform says that its topic is gone")
    driver.append(1000)
    rig.wait_stored(driver)
    rig.check(driver)
    eventually(lambda: rig.health()["status"] == "ok", "the platform is well again")


def test_records_missing_within_the_topic_are_asked_for(rig):
    """Deleted and made again with more in it than was read before: no offset is out of range."""
    rig.platform.start()
    driver = rig.driver().start()
    driver.append(500)
    driver.wait_confirmed()
    rig.platform.kill()
    driver.append(300)
    driver.wait_delivered()
    ends = rig.broker.ends(rig.topic)
    partition = max(ends, key=ends.get)
    rig.broker.truncate(rig.topic, {partition: ends[partition] - 100})
    # The store's offset as if it had been read that far: only the numbers of the records can tell.
    import sqlite3
    with sqlite3.connect(rig.stack.data / "platform.db") as database:
        database.execute("UPDATE offsets SET next_offset = ? WHERE partition = ?", (ends[partition] - 50, partition))
    rig.platform.start()
    rig.wait_stored(driver)
    rig.check(driver)
    assert rig.metric("consumer_replays_total") >= 1 and driver.replays() >= 1
    assert rig.logged("consume_gap")


def test_poison_and_clashes_are_put_aside_and_stop_nobody(rig):
    rig.platform.start()
    driver = rig.driver().start()
    driver.append(100)
    driver.wait_confirmed()
    epoch = rig.rows("SELECT epoch FROM streams")[0][0]
    pepper = (rig.stack.data / "pepper").read_text()

    def message(node, epoch, seq, value):
        mac = run_mac.mac(run_mac.key(pepper, node), epoch, seq, [value.encode()])
        return f"schema:writ.audit/1,node:{node},journal:0,epoch:{epoch},seq:{seq},mac:{mac}\t{value}"

    rig.broker.put(rig.topic, [
        "a:b\tno place at all",
        f"schema:writ.audit/1,node:node-1,journal:0,epoch:{epoch},seq:none\tno number",
        message("node-1", epoch, 7, '{"another":"record 7"}'),
        message("node-1", "0123456789abcdef", len(driver.acked) + 1, '{"of":"another history"}'),
        message("node-9", "0123456789abcdef", 1, "no json")])
    eventually(lambda: len(rig.rows("SELECT 1 FROM quarantine")) == 5, "all five are in quarantine")
    driver.append(100)
    driver.wait_confirmed()
    reasons = sorted(reason for reason, in rig.rows("SELECT reason FROM quarantine"))
    assert reasons == ["clash", "epoch unknown", "epoch unknown", "poison", "poison"], rig.rows("SELECT * FROM quarantine")
    assert len(rig.stored("node-1")) == len(driver.acked)
    assert rig.metric("consumer_poison_total") == 2


def put_packed(broker, topic, partition, codec, size, count=1):
    """A batch of `count` messages that are small in the topic and of `size` bytes when they are unpacked."""
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.address, "compression.type": codec, "message.max.bytes": 10**9,
                                         "queue.buffering.max.kbytes": 10**6, "batch.size": 10**9, "linger.ms": 60000})
    # Messages to a partition that is not known yet are handed on one by one when it is, perhaps while all is flushed:
    # the first would be a batch of its own then.
    producer.list_topics(topic, timeout=30)
    for _ in range(count):
        producer.produce(topic, b"a" * size, partition=partition)
    assert producer.flush(60) == 0


def test_a_message_that_is_huge_when_unpacked_is_kept_in_part_and_stops_nobody(rig):
    rig.platform.start()
    driver = rig.driver().start()
    driver.append(100)
    driver.wait_confirmed()
    for partition in range(4):
        put_packed(rig.broker, rig.topic, partition, "gzip", 40 << 20)
    driver.append(100)
    driver.wait_confirmed()
    eventually(lambda: len(rig.rows("SELECT 1 FROM quarantine")) == 4, "all four are in quarantine")
    assert rig.rows("SELECT DISTINCT reason, length(event) FROM quarantine") == [("poison", 128 << 10)]
    assert f"{40 << 20} bytes" in rig.logged("consume_poison")[0]["text"]
    assert len(rig.stored("node-1")) == len(driver.acked)


def forged(seq):
    return json.dumps({"event_id": f"evt_forged_{seq}", "kind": "review.approved", "tenant_id": "default", "timestamp": "2026-11-27T12:00:00.000Z"})


def test_a_writer_of_the_topic_without_the_pepper_forges_nothing(rig):
    rig.platform.start()
    driver = rig.driver().start()
    driver.append(20)
    driver.wait_confirmed()
    epoch = rig.rows("SELECT epoch FROM streams")[0][0]
    after = len(driver.acked) + 1
    guessed = "0" * 64
    lines = []

    def put(node, seq, mac=None):
        value = forged(len(lines))
        signed = "" if mac is None else f",mac:{mac(node, seq, value.encode())}"
        lines.append(f"schema:writ.audit/1,node:{node},journal:0,epoch:{epoch},seq:{seq}{signed}\t{value}")

    def under_another_pepper(node, seq, value):
        return run_mac.mac(run_mac.key(guessed, node), epoch, seq, [value])

    genuine = next(message["headers"]["mac"] for message in rig.broker.read(rig.topic, after - 1) if message["headers"]["seq"] == "2")
    for node, first in (("node-1", after), ("invented", 1)):
        put(node, first)
        put(node, first, mac=lambda *_: genuine)
        for seq in range(first, first + 5):  # a batch of messages
            put(node, seq)
        for seq in range(first, first + 5):
            put(node, seq, mac=under_another_pepper)
    put("node-1", 2, mac=lambda *_: genuine)  # in the place of a stored record
    put("node-1", after + 100)  # behind records that do not exist
    rig.broker.put(rig.topic, lines)
    eventually(lambda: len(rig.rows("SELECT 1 FROM quarantine")) == len(lines), "all are in quarantine")
    assert rig.rows("SELECT DISTINCT reason FROM quarantine") == [("unauthenticated",)]
    assert rig.metric("ingest_unauthenticated_total") == len(lines) and rig.metric("consumer_replays_total") == 0
    driver.append(20)
    driver.wait_confirmed()
    assert rig.stored("node-1") == driver.acked, "the genuine records have their places"
    assert rig.rows("SELECT node FROM streams") == [("node-1",)]
    assert rig.rows("SELECT 1 FROM records WHERE event_id LIKE 'evt_forged%' OR kind = 'review.approved'") == []


def test_a_batch_that_cannot_be_unpacked_is_told_until_somebody_steps_over_it(rig):
    rig.platform.start()
    driver = rig.driver().start()
    driver.append(100)
    driver.wait_confirmed()
    partition = next(partition for partition, end in rig.broker.ends(rig.topic).items() if end)
    put_packed(rig.broker, rig.topic, partition, "zstd", 50 << 20, count=3)
    driver.append(100)
    eventually(lambda: "cannot be read at offset" in rig.health()["checks"]["kafka"], "it is told")
    for _ in range(40):  # and told all the time
        time.sleep(0.1)
        assert "cannot be read at offset" in rig.health()["checks"]["kafka"]
    rig.broker.truncate(rig.topic, {partition: -1})  # a broker gives the whole batch that has an offset
    rig.wait_stored(driver)
    rig.check(driver)
    eventually(lambda: rig.health()["checks"]["kafka"] == "ok", "all is well again")


def test_a_message_of_a_newer_form_is_put_aside_and_its_place_stays_free(rig):
    rig.platform.start()
    driver = rig.driver().start()
    driver.append(20)
    driver.wait_confirmed()
    epoch = rig.rows("SELECT epoch FROM streams")[0][0]
    rig.broker.put(rig.topic, [f"schema:writ.audit/2,node:node-1,journal:0,epoch:{epoch},seq:{len(driver.acked) + 1}\tof tomorrow"])
    eventually(lambda: rig.rows("SELECT 1 FROM quarantine"), "it is in quarantine")
    driver.append(20)
    driver.wait_confirmed()
    assert rig.stored("node-1") == driver.acked
    assert rig.rows("SELECT reason, CAST(event AS TEXT) FROM quarantine") == [("poison", "of tomorrow")]
    assert rig.metric("consumer_poison_total") == 1
    assert "writ.audit/1" in rig.logged("consume_poison")[0]["text"]


def test_two_platforms_share_the_partitions_and_one_takes_over(rig):
    rig.platform.start()
    other = rig.other_platform().start()
    eventually(lambda: [rig.metric("consumer_partitions", program) for program in (rig.platform, other)] == [0, 0], "no topic yet")
    drivers = [rig.driver(f"node-{number}").start() for number in range(4)]
    for driver in drivers:
        driver.append(500)
    eventually(lambda: [rig.metric("consumer_partitions", program) for program in (rig.platform, other)] == [2, 2], "two each")
    other.kill()
    killed = time.monotonic()
    for driver in drivers:
        driver.append(500)
    eventually(lambda: rig.metric("consumer_partitions") == 4, "the other's partitions are taken over")
    print(f"taken over after {time.monotonic() - killed:.1f} s")
    for driver in drivers:
        driver.wait_confirmed()
    rig.check(*drivers)


def test_each_platform_counts_what_all_have_stored(rig):
    platforms = [rig.platform.start(), rig.other_platform().start()]
    driver = rig.driver().start()
    driver.append(100)
    driver.wait_confirmed()
    rows = rig.rows("SELECT count(*) FROM records")[0][0]
    assert rows > len(driver.acked), "the platform's own are among them"
    for platform in platforms:
        eventually(lambda: rig.metric("store_events", platform) == rows, f"{rows} events are told")


def test_a_platform_that_was_asleep_cannot_commit_what_it_lost(rig):
    rig.platform.start()
    driver = rig.driver().start()
    driver.append(500)
    driver.wait_confirmed()
    other = rig.other_platform().start()
    rig.put_to_sleep(rig.platform)
    driver.append(2000)
    driver.wait_delivered()
    eventually(lambda: rig.metric("consumer_partitions", other) == 4, "the other has taken over")
    rig.wait_stored(driver)
    rig.platform.signal(signal.SIGCONT)
    driver.append(2000)
    driver.wait_confirmed()
    rig.check(driver)


def test_a_topic_that_is_not_what_it_should_be_is_refused_with_a_sentence(rig):
    rig.platform.start()
    rig.broker.create(rig.topic, 3)
    driver = rig.driver().start()
    driver.append(10)
    eventually(lambda: driver.status()["state"] == "misfit", f"the topic is refused: {driver.status()}")
    assert "has 3 partitions, and this engine began with 4" in driver.status()["text"]
    driver.end()
    rig.partitions = driver.partitions = 3
    driver.start()
    driver.wait_confirmed()
    assert len(rig.stored("node-1")) == len(driver.acked)


def test_a_compacted_topic_is_refused(rig):
    rig.platform.start()
    rig.broker.create(rig.topic, 4, cleanup_policy="compact")
    driver = rig.driver().start()
    eventually(lambda: driver.status()["state"] == "misfit", "the topic is refused")
    assert "compacted" in driver.status()["text"]


@pytest.fixture
def way(broker, tmp_path):
    """To the broker, and a rig that knows of no other."""
    broker.start()  # one that an earlier test left dead
    one = Way(("127.0.0.1", broker.port), is_broker=True)
    one.rig = Rig(broker, tmp_path, at=one.address)
    yield one
    one.rig.close()
    one.close()


PRODUCE, FETCH = 0, 1


def asks(sent, kind):
    """Whether a request of this kind was sent last: its number is behind the length."""
    return len(sent) > 6 and int.from_bytes(sent[4:6], "big") == kind


def test_connections_that_end_within_an_answer_lose_and_double_nothing(way):
    rig = way.rig
    rig.platform.start()
    driver = rig.driver().start()
    driver.append(100)
    driver.wait_confirmed()
    ends = [(PRODUCE, 0, Way.CLOSE), (PRODUCE, 0.5, Way.CLOSE), (PRODUCE, 0, Way.HALF_CLOSE), (FETCH, 0.5, Way.CLOSE), (FETCH, 0.5, Way.HALF_CLOSE)]
    for count, (kind, part, ending) in enumerate(ends, 1):
        way.spoil = lambda sent, reply: (reply[:int(len(reply) * part)], ending) if asks(sent, kind) and way.spoiled < count else (reply, None)
        driver.append(100)
        driver.wait_confirmed()
        eventually(lambda: way.spoiled == count, "an answer was spoiled")
    rig.check(driver)
    assert sum(rig.broker.ends(rig.topic).values()) == len(driver.acked), "twice in the topic"
    eventually(lambda: rig.health()["status"] == "ok", "the platform is well")


def test_connections_that_the_network_forgot_are_given_up(way):
    """In much less than the minute that the client library waits for an answer."""
    rig = way.rig
    rig.platform.start()
    driver = rig.driver().start()
    driver.append(100)
    driver.wait_confirmed()
    way.forget()
    driver.append(100)
    driver.wait_confirmed(60)
    rig.check(driver)


@pytest.fixture
def stack(broker, tmp_path):
    topic = broker.new_topic()
    options = ["--kafka.brokers", broker.address, "--kafka.topic", topic]
    with Stack(tmp_path, engine=options, platform=options) as one:
        one.topic = topic
        yield one


def test_an_engine_publishes_its_decisions_by_kafka(broker, stack):
    stack.policy("base", "rules:\n  - {id: reads, agents: [\"*\"], actions: [\"get_*\"], decision: allow}\n")
    with stack.at_engine() as wire:
        traces = [wire.post("/v1/agent/authorize", {"action": "get_x"}).json["trace_id"] for _ in range(50)]
    for trace in traces:
        assert [event["kind"] for event in stack.trace(trace)] == ["decision"]
    stack.wait_published()
    told = stack.metrics(stack.engine)
    assert told["writ_engine_publish_delivered_seq"] == told["writ_engine_journal_seq"]
    last = int(told["writ_engine_journal_seq"])
    assert sum(broker.ends(stack.topic).values()) == last
    assert [int(message["headers"]["seq"]) for message in broker.read(stack.topic, last)] == list(range(1, last + 1))
    stack.engine.stop()
    stack.platform.stop()


def test_a_platform_that_does_not_read_the_topic_is_told_by_its_engine(broker, tmp_path):
    broker.start()  # one that an earlier test left dead
    options = ["--kafka.brokers", broker.address, "--kafka.topic", broker.new_topic()]
    with Stack(tmp_path, engine=options) as stack:
        def told():
            with Wire(stack.engine.address) as wire:
                return wire.get("/healthz").json["checks"]["publish"]

        def doctor():
            return stack.cli("doctor", key=stack.keys["root"], check=False, environment={"WRIT_ENGINE_URL": stack.engine.url, "WRIT_PLATFORM_URL": stack.platform.url})
        def stood():
            found = re.match(r"the platform has stood at seq 0 for (\d+)", told())
            return found and int(found[1])
        assert eventually(stood, "it is told") >= 30, "after half a minute"
        assert "kafka.brokers" in told() and stack.metrics(stack.engine)['writ_engine_check_failing{check="publish"}'] == 1
        resent = eventually(lambda: stack.metrics(stack.engine)["writ_engine_publish_replays_total"], "they are sent again")
        assert resent >= 1 and told() != "ok", "that they are sent again heals nothing"
        sick = doctor()
        assert sick.returncode != 0 and "the platform has stood at seq 0" in sick.stdout
        stack.platform.stop()
        stack.platform.arguments += options
        stack.platform.start()
        stack.wait_published()
        eventually(lambda: told() == "ok", "all is well")


def test_records_that_neither_topic_nor_journal_has_can_be_given_up(broker, tmp_path):
    broker.start()  # one that an earlier test left dead
    topic = broker.new_topic()
    options = ["--kafka.brokers", broker.address, "--kafka.topic", topic]
    with Stack(tmp_path, engine=[*options, *FORGETFUL], platform=options) as stack:
        stack.policy("base", "rules:\n  - {id: reads, agents: [\"*\"], actions: [\"get_*\"], decision: allow}\n")
        stack.wait_published()
        backup = back_up(stack)
        lost = decide_until_forgotten(stack)
        stack.wait_published()
        broker.truncate(topic, {partition: end for partition, end in broker.ends(topic).items() if end})
        restore(stack, backup)
        kept = decide(stack)
        command = eventually(lambda: gap_advice(stack), "health says what to do")
        stack.cli(*command, key=stack.keys["root"])
        stack.wait_published()
        assert stack.trace(kept) and stack.trace(decide(stack))
        with stack.at_platform() as wire:
            assert wire.get(f"/api/v1/audit/trace/{lost}").json["count"] == 0


def test_ops_stack_says_which_port_is_taken(broker):
    broker.start()  # one that an earlier test left dead
    other = Broker()
    try:
        for port in (broker.port, broker.port - 1):  # as its own, and as its controller's
            other.environment["WRIT_KAFKA_PORT"] = str(port)
            done = other.stack("up")
            assert done.returncode == 1 and f"port {broker.port} is another program's" in done.stderr, done.stderr
    finally:
        other.close()

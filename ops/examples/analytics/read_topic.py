#!/usr/bin/python3
"""Reads the audit topic from its beginning to where it ends now, each event once, and counts decisions.

    read_topic.py --brokers 127.0.0.1:9092 [--topic writ.audit.v1] [--tenant NAME] [--follow] [--json]
                  [--print] [--set security.protocol=sasl_ssl --set sasl.username=analyst …]

An example to begin from (Debian: python3-confluent-kafka; else: pip install confluent-kafka). What it
shows, and ../../../schemas/kafka.md promises:

- The value is the event's JSON as it was journaled; the headers say where it comes from, so that a reader
  passes over what it does not want without reading JSON.
- Events come at least once. All records of one (node, journal) are in one partition, their first
  appearances in the order of seq, without gaps while the topic keeps them: so one number per (node,
  journal), and what was skipped below it, is all that de-duplication has to remember. What was
  skipped may come later: the engine sends again what the platform missed, too.
- Partitions are assigned by hand and no offset is committed. A program that keeps what it reads keeps its
  offsets in the same transaction, together with those numbers; then every event is in it exactly once.
"""

import argparse
import collections
import json
import sys

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

HEADERS = ("event_id", "kind", "tenant_id", "schema", "node", "journal", "epoch", "seq")


class Position:
    """How far each (node, journal) was read, what was skipped (as ranges), and what happened on the way."""

    def __init__(self):
        self.seen = {}
        self.skipped = collections.defaultdict(list)
        self.duplicates = self.missing = self.strangers = 0

    def is_new(self, headers):
        """Whether a message with these headers was not seen yet; remembers that it is now."""
        if not all(headers.get(name) for name in HEADERS) or not headers["seq"].isdecimal():
            self.strangers += 1  # not from an engine: the platform puts it into quarantine, too
            return False
        stream, seq = (headers["node"], headers["journal"]), int(headers["seq"])
        last = self.seen.get(stream, 0)
        if seq <= last:
            return self.was_skipped(stream, seq)
        if seq > last + 1:
            self.missing += seq - last - 1  # the topic's retention took them, or they will come again
            self.skipped[stream].append((last + 1, seq - 1))
        self.seen[stream] = seq
        return True

    def was_skipped(self, stream, seq):
        """Takes it out of what was skipped; False: it was seen."""
        for at, (first, last) in enumerate(self.skipped[stream]):
            if first <= seq <= last:
                self.skipped[stream][at:at + 1] = [part for part in ((first, seq - 1), (seq + 1, last)) if part[0] <= part[1]]
                self.missing -= 1
                return True
        self.duplicates += 1
        return False


def headers_of(message):
    return {name: (value or b"").decode(errors="replace") for name, value in message.headers() or []}


def messages(consumer, topic, follow):
    """All messages of all partitions; ends where the topic ended when it began, unless it is to follow."""
    found = consumer.list_topics(topic, timeout=30).topics[topic]
    if found.error is not None:
        raise KafkaException(found.error)
    ends = {partition: consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=30) for partition in found.partitions}
    open_ = {partition for partition, (low, high) in ends.items() if low < high}
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in found.partitions])
    while open_ or follow:
        message = consumer.poll(1.0)
        if message is None:
            continue
        error = message.error()
        if error is not None:
            if error.code() == KafkaError._PARTITION_EOF:
                if message.offset() >= ends[message.partition()][1]:
                    open_.discard(message.partition())
                continue
            raise KafkaException(error)
        yield message
        if message.offset() >= ends[message.partition()][1] - 1:
            open_.discard(message.partition())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--brokers", required=True)
    parser.add_argument("--topic", default="writ.audit.v1")
    parser.add_argument("--tenant", help="only this one's events")
    parser.add_argument("--follow", action="store_true", help="do not end; Ctrl-C prints the counts")
    parser.add_argument("--print", action="store_true", help="a line per event, too: id, time, kind, actor, decision, trace id, place")
    parser.add_argument("--json", action="store_true", help="print one object")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="any setting of librdkafka")
    arguments = parser.parse_args()

    consumer = Consumer({
        "bootstrap.servers": arguments.brokers, "group.id": "writ-read-topic", "enable.auto.commit": False,
        "auto.offset.reset": "error", "enable.partition.eof": True, **dict(pair.split("=", 1) for pair in arguments.set)})
    position, decisions, kinds, read = Position(), collections.Counter(), collections.Counter(), 0
    try:
        for message in messages(consumer, arguments.topic, arguments.follow):
            read += 1
            headers = headers_of(message)
            if not position.is_new(headers) or headers["schema"] != "writ.audit/1":
                continue
            if arguments.tenant is not None and headers["tenant_id"] != arguments.tenant:
                continue
            kinds[headers["kind"]] += 1
            if headers["kind"] != "decision" and not arguments.print:
                continue
            event = json.loads(message.value())
            if headers["kind"] == "decision" and event["mode"] == "live":
                decisions[event["decision"]] += 1
            if arguments.print:
                trace_id = (message.key() or b"").decode()
                print(headers["event_id"], event["timestamp"], headers["kind"], event.get("actor", ""), event.get("decision", ""),
                      trace_id, "/".join(headers[name] for name in ("node", "journal", "seq")), sep="\t")
    except KeyboardInterrupt:
        pass
    except KafkaException as fault:
        sys.exit(f"read_topic.py: {fault.args[0].str()}")
    finally:
        consumer.close()

    if arguments.json:
        print(json.dumps({"decisions": decisions, "kinds": kinds, "messages": read, "duplicates": position.duplicates,
                          "missing": position.missing, "strangers": position.strangers}, sort_keys=True))
        return
    for decision, count in sorted(decisions.items()):
        print(f"{count:12,} {decision}")
    print(f"{sum(decisions.values()):12,} live decisions, {sum(kinds.values()):,} events, in {read:,} messages "
          f"({position.duplicates:,} seen before, {position.missing:,} missing, {position.strangers:,} of no engine)")


if __name__ == "__main__":
    main()

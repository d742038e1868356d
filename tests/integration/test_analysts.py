"""What analysts are given, on a day that clients have counted: the topic, the questions in SQL, the store."""

import collections
import csv
import datetime
import importlib.util
import json
import re
import shlex
import sqlite3
import subprocess

import pytest

from kafka_rig import BUILD, TOP, Rig, Stack

import story

ANALYTICS = TOP / "ops" / "examples" / "analytics"
PYTHON = "/usr/bin/python3"
SHOWN = {"tenant": "default", "from": "2026-11-20", "to": "2026-11-21", "actor": "invoice_bot"}  # values in the questions' examples


class Day:
    """A story that was played: over one of the stores, and by way of Kafka where there is one."""

    def __init__(self, folder, broker, no_kafka, postgres):
        self.broker, self.no_kafka = broker, no_kafka
        engine, platform = [], []
        if broker is not None:
            self.topic = broker.new_topic()
            engine = platform = ["--kafka.brokers", broker.address, "--kafka.topic", self.topic]
        self.url = postgres.new_database() if postgres is not None else None
        self.stack = Stack(folder, engine=engine, platform=platform, store_url=self.url)
        try:
            self.stack.start()
            self.story = story.tell(self.stack)
        except BaseException:
            self.stack.close()
            raise

    def psql(self, *words, **options):
        done = subprocess.run(["psql", "-X", "-q", "--csv", "-d", self.url, *words], capture_output=True, text=True, timeout=600, **options)
        assert done.returncode == 0 and not done.stderr, done.stderr
        return done.stdout

    def rows(self, sql):
        if self.url is not None:
            return [tuple(row) for row in csv.reader(self.psql("-t", "-c", sql).splitlines())]
        with sqlite3.connect(f"file:{self.stack.data / 'platform.db'}?mode=ro", uri=True) as database:
            return database.execute(sql).fetchall()

    def counts(self, sql):
        return {name: int(count) for name, count in self.rows(sql)}

    def ask(self, **settings):
        """The answers to all questions, asked as people ask them."""
        if self.url is not None:
            words = [word for name, value in settings.items() for word in ("-v", f"{name}={value}")]
            return Answers(self.psql(*words, "-f", ANALYTICS / "questions.postgres.sql"))
        shown = commands_shown()
        done = self.sqlite3(*(shown[name].replace(SHOWN[name], value) for name, value in settings.items()))
        assert done.returncode == 0 and not done.stderr, done.stderr
        return Answers(done.stdout)

    def sqlite3(self, *commands, last=""):
        words = [word for command in commands for word in ("-cmd", command)]
        return subprocess.run(["sqlite3", "-readonly", "-csv", "-header", *words, self.stack.data / "platform.db"],
                              input=(ANALYTICS / "questions.sqlite.sql").read_text() + last, capture_output=True, text=True, timeout=600)

    def plan(self, sql):
        """How a query beside the questions would be answered."""
        if self.url is not None:
            return self.psql("-f", ANALYTICS / "questions.postgres.sql", "-c", f"EXPLAIN {sql}").rpartition("QUERY PLAN")[2]
        return self.sqlite3(last=f".print QUERY PLAN\nEXPLAIN QUERY PLAN {sql};").stdout.rpartition("QUERY PLAN")[2]


def commands_shown():
    """{parameter: the command that sets it}, as the example at the top of the SQLite questions has them."""
    text = (ANALYTICS / "questions.sqlite.sql").read_text()
    words = shlex.split(text[text.index("sqlite3 -readonly"):text.index("platform.db <")].replace("\\\n--", ""))
    return {word.split()[2][1:]: word for word in words if word.startswith(".parameter")}


class Answers:
    """What a file of questions printed: {number: [row as a dictionary]}."""

    def __init__(self, text):
        self.rows = {}
        for number, body in re.findall(r"^# (\d+) [^\n]*\n(.*?)(?=^# \d+ |\Z)", text, re.M | re.S):
            self.rows[int(number)] = list(csv.DictReader(body.strip().splitlines()))

    def __getitem__(self, number):
        return self.rows[number]

    def count(self, number, *names, of="times"):
        """{value, or tuple of values: the number beside it}, added up."""
        found = collections.Counter()
        for row in self[number]:
            key = tuple(row[name] or None for name in names)
            found[key[0] if len(names) == 1 else key] += int(row[of])
        return dict(found)


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def day(request, tmp_path_factory):
    for name in ("writ-engine", "writ-platform", "writ"):
        assert (BUILD / "bin" / name).exists(), f"{name} is not built in {BUILD}"
    postgres = request.getfixturevalue("postgres") if request.param == "postgres" else None
    try:
        broker, no_kafka = request.getfixturevalue("broker"), ""
    except pytest.skip.Exception as why:
        broker, no_kafka = None, str(why)  # the questions need no Kafka
    one = Day(tmp_path_factory.mktemp("analysts"), broker, no_kafka, postgres)
    yield one
    one.stack.close()


@pytest.fixture
def kafka(day):
    if day.broker is None:
        pytest.skip(day.no_kafka)
    return day


# ---- the topic ----


def stored_decisions(day):
    return day.counts("SELECT decision, count(*) FROM events WHERE tenant_id = 'default' AND kind = 'decision' AND mode = 'live' GROUP BY 1")


def test_the_store_has_what_clients_were_told(day):
    assert stored_decisions(day) == day.story.counts("decision")


def test_kafkas_own_console_consumer_reads_the_stores_counts(kafka):
    in_topic = sum(kafka.broker.ends(kafka.topic).values())
    messages = kafka.broker.read(kafka.topic, in_topic)
    events = {message["headers"]["event_id"]: json.loads(message["value"]) for message in messages}
    assert len(messages) == in_topic
    counts = collections.Counter(event["decision"] for event in events.values() if event["kind"] == "decision" and event["mode"] == "live")
    assert dict(counts) == stored_decisions(kafka) == kafka.story.counts("decision")
    assert set(events) == {event for event, in kafka.rows("SELECT event_id FROM records WHERE node IS NOT NULL")}


def read_topic(broker, topic, *words):
    done = subprocess.run([PYTHON, ANALYTICS / "read_topic.py", "--brokers", broker.address, "--topic", topic, *words],
                          capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_python_example_reads_the_stores_counts(kafka):
    *lines, summary = read_topic(kafka.broker, kafka.topic, "--print", "--json").splitlines()
    read, printed = json.loads(summary), {line[0]: line for line in (line.split("\t") for line in lines)}
    stored = {row[0]: row for row in kafka.rows("SELECT event_id, trace_id, kind, node, journal, seq FROM records WHERE node IS NOT NULL")}
    apart = [stored.get(event) or printed[event] for event in stored.keys() ^ printed.keys()]
    assert not apart, f"{apart}, of {len(stored)} stored and {len(printed)} printed; {read}; the topic ends at {kafka.broker.ends(kafka.topic)}"
    assert {event: line[5] for event, line in printed.items()} == {event: row[1] or "" for event, row in stored.items()}
    assert read["kinds"] == dict(collections.Counter(row[2] for row in stored.values())) and (read["missing"], read["strangers"]) == (0, 0), read
    assert read["decisions"] == stored_decisions(kafka) == kafka.story.counts("decision")
    shown = read_topic(kafka.broker, kafka.topic)
    assert re.search(rf"^ +{kafka.story.counts('decision')['deny']} deny$", shown, re.M), shown
    assert json.loads(read_topic(kafka.broker, kafka.topic, "--json", "--tenant", "nobody"))["decisions"] == {}


def test_the_python_example_takes_what_was_skipped_when_it_comes():
    """The topic lost 101 to 200; the platform missed them, too, and the engine sends them and what followed again."""
    found = importlib.util.spec_from_file_location("read_topic", ANALYTICS / "read_topic.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    position = module.Position()

    def takes(seqs):
        return [seq for seq in seqs if position.is_new({**dict.fromkeys(module.HEADERS, "x"), "seq": str(seq)})]

    assert takes([*range(1, 101), *range(201, 301)]) == [*range(1, 101), *range(201, 301)] and position.missing == 100
    assert takes([150, 150, *range(101, 111)]) == [150, *range(101, 111)] and position.missing == 89
    assert takes(range(101, 302)) == [*range(111, 150), *range(151, 201), 301]
    assert (position.missing, position.duplicates) == (0, 112)


def test_the_python_example_counts_once_what_comes_again(broker, tmp_path):
    """Engines that were restarted while nobody told them how far the store had come send again."""
    rig = Rig(broker, tmp_path, consumes=False)
    try:
        rig.platform.start()  # answers positions, and reads nothing
        driver = rig.driver()
        for _ in range(3):
            driver.start()
            driver.append(300)
            driver.wait_delivered()
            assert driver.stop() == "stopped drained"
        rig.broker.put(rig.topic, ["a:b\tnot of an engine", "node:node-9,journal:0,seq:7\tnor is this"])
        read = json.loads(read_topic(rig.broker, rig.topic, "--json"))
        assert sum(read["kinds"].values()) == len(driver.acked) and read["decisions"] == {"allow": 600, "deny": 300}
        assert read["duplicates"] == read["messages"] - 2 - len(driver.acked) > 0
        assert (read["strangers"], read["missing"]) == (2, 0)
        print(f"{read['messages']} messages, {read['duplicates']} of them again; {len(driver.acked)} events, each once")
    finally:
        rig.close()


# ---- files ----


def test_an_export_holds_the_stores_events(day, tmp_path):
    file = tmp_path / "audit.ndjson"
    for _ in range(2):
        day.stack.cli("audit", "export", "--platform", day.stack.platform.url, "--output", file, "--resume", key=day.stack.keys["auditor"])
    stored = [event for event, in day.rows("SELECT event FROM records WHERE tenant_id = 'default' ORDER BY id")]
    assert file.read_text().splitlines() == stored and len(stored) > 100


# ---- the questions ----


def test_the_questions_are_answered_as_clients_counted(day):
    told, answers = day.story, day.ask()
    assert sorted(answers.rows) == list(range(1, 16))

    assert answers.count(1, "who", "action") == {
        ("bot-a", "drop_table"): 5, ("bot-b", "drop_table"): 2, ("bot-b", "issue_credit"): 3, ("bot-c", "dance"): 6,
        ("bot-t", "drop_table"): 1, ("rogue", "get_invoice"): 3}
    assert answers.count(2, "rule") == told.counts("rule")
    assert abs(sum(float(row["percent"]) for row in answers[2]) - 100) < 1

    waited = {row["review_id"]: row for row in answers[3]}
    ended = {"redeemed": "approved"}  # waiting ends with the approval
    assert {review: row["outcome"] for review, row in waited.items()} == {review: ended.get(how, how) for review, how in told.reviews.items()}
    assert [row["seconds"] for row in answers[3]][:1] == [""], "what still waits comes first"
    quick = next(row for row in answers[3] if row["outcome"] == "expired")
    seconds = [float(row["seconds"]) for row in answers[3][1:]]
    assert float(quick["seconds"]) >= 1 and seconds == sorted(seconds, reverse=True)
    assert answers.count(4, "outcome", of="reviews") == dict(collections.Counter(row["outcome"] for row in waited.values()))

    versions = collections.Counter()
    for answer, _, _ in told.decisions:
        if answer["mode"] == "live":
            versions[answer.get("policy_name"), str(answer["policy_version"]) if "policy_version" in answer else None, answer["decision"]] += 1
    assert answers.count(5, "policy_name", "policy_version", "decision") == dict(versions)
    assert {version for name, version, _ in versions if name == "base"} == {"1", "2"}

    assert {row["decision"] for row in answers[6] if row["kind"] == "decision"} >= {"allow", "deny", "human_review"}, "bot-a did most"
    assert len({row["hour"] for row in answers[7]}) <= 2 and "compute" in answers[7][0]
    for decision, count in told.counts("decision").items():
        assert sum(int(row[decision]) for row in answers[7]) == count
    assert sum(int(row["decisions"]) for row in answers[7]) == sum(told.counts("decision").values())

    assert answers.count(8, "action", "safe_tool", of="computed")["write_orders_prod", "write_file"] == told.counts("decision")["compute"]
    # What a token did, a redemption and a dry run apart, every request of the story carries a card.
    assert answers.count(8, "action", of="masked")["drop_table"] == told.counts("action")["drop_table"]

    tokens = collections.Counter()
    for row in answers[9]:
        tokens[row["key"], row["kind"]] += int(row["tokens"])
        assert (row["actor"], row["acting_for"]) == ("bot-t", "erin")
    assert {pair: count for pair, count in tokens.items() if pair[1] != "token.rejected"} == dict(told.tokens)

    assert answers.count(10, "rule", "who") == {("limit:credits", "bot-b"): 3}
    for outcome in ("approved", "denied"):
        assert answers.count(11, "resolved_by", of=outcome) == {by: told.approved[by, outcome] for by in ("carol", "dan", "admin-owner")}
    assert answers.count(11, "own", of="own") == {"0": 0}
    assert [(row["approved"], row["redeemed"]) for row in answers[12]] == [("4", "1")]
    assert answers.count(13, "policy", "rule", "now") == {("shadow", "deny:no-lists", "allow"): 4}
    changes = collections.Counter(row["kind"] for row in answers[14])
    assert changes == {kind: count for kind, count in told.kinds.items() if kind in changes and kind != "key.created"} | {
        "key.created": len(day.stack.keys) - 1}, "two of the keys are for all tenants"
    assert answers.count(15, "kind") == {"auth.failed": 1, "token.rejected": 1}


def test_the_questions_can_be_narrowed(day):
    told, ask = day.story, day.ask
    today = datetime.datetime.now(datetime.timezone.utc).date()
    around = {"from": str(today - datetime.timedelta(2)), "to": str(today + datetime.timedelta(1))}
    assert ask(**around).count(2, "decision") == told.counts("decision"), "a day by itself is its beginning"
    nothing = ask(**{"from": "2020-01-01", "to": "2020-01-02"})
    assert all(not rows for number, rows in nothing.rows.items() if number != 12)
    assert not ask(tenant="nobody")[2]
    times = [row["timestamp"] for row in ask(actor="bot-b")[6]]
    assert len(times) == sum(who == "bot-b" for _, who, _ in told.decisions) and times == sorted(times)
    middle = sorted(answer["timestamp"] for answer, _, _ in told.decisions if answer["mode"] == "live")
    cut = middle[len(middle) // 2]
    before, after = ask(to=cut).count(2, "decision"), ask(**{"from": cut}).count(2, "decision")
    assert sum(before.values()) == sum(time < cut for time in middle), "to is exclusive"
    assert collections.Counter(before) + collections.Counter(after) == told.counts("decision"), "from is inclusive"


@pytest.mark.parametrize("day", ["postgres"], indirect=True)  # SQLite's file has no roles
def test_the_role_that_analysts_are_given_may_ask_all_of_it_and_change_nothing(day):
    """With what docs/guides/postgresql.md grants, word by word; a key's row has what proves it, and is not theirs to see."""
    grants = " ".join(re.findall(r"^GRANT .+;$", (TOP / "docs" / "guides" / "postgresql.md").read_text(), re.M))
    assert "events" in grants
    asked = "SET ROLE analysts"
    try:
        day.psql("-c", f"CREATE ROLE analysts; {grants}")
        answers = Answers(day.psql("-c", asked, "-f", ANALYTICS / "questions.postgres.sql"))
        assert answers.rows == day.ask().rows and len(answers.rows) == 15
        for sql in ("SELECT key FROM keys", "SELECT roles FROM keys", "SELECT * FROM records", "SELECT * FROM policies", "DELETE FROM records",
                    "UPDATE keys SET key = ''", "CREATE TABLE mine (a int)"):
            done = subprocess.run(["psql", "-X", "-q", "-d", day.url, "-c", asked, "-c", sql], capture_output=True, text=True, timeout=600)
            assert done.returncode != 0 and "permission denied" in done.stderr, (sql, done)
    finally:
        day.psql("-c", "DROP OWNED BY analysts", "-c", "DROP ROLE analysts")


def ask_of(day, tenant, **members):
    """The answers for a tenant that has this event and no other."""
    event = {"event_id": f"{tenant}.1", "tenant_id": tenant, "timestamp": "2026-11-01T09:00:00.000Z", "actor": "erin", **members}
    restorer = day.stack.key(f"restorer of {tenant}", ["ingest", "admin"], tenant="*", wait=False, tenants=[tenant])
    with day.stack.at_platform(restorer) as wire:
        assert wire.post(f"/api/v1/audit/ingest?tenant_id={tenant}", json.dumps(event, separators=(",", ":"))).status == 201
    return day.ask(**{"tenant": tenant, "from": "2026-11-01", "to": "2026-11-02"})


def test_a_resource_that_is_a_text_stops_no_question(day):
    """Other systems may post one, also where our own programs write an object."""
    answers = ask_of(day, "theirs", kind="policy.put", resource="policy:base")
    assert [(row["who"], row["what"]) for row in answers[14]] == [("erin", "erin")] and 15 in answers.rows


@pytest.mark.parametrize("args", [{"masked": True}, {"list": [1, "[masked]"]}])
def test_what_is_masked_in_part_or_altogether_counts_as_masked(day, args):
    answers = ask_of(day, f"masked{len(str(args))}", kind="decision", mode="live", decision="allow", action="pay", args=args)
    assert [(row["action"], row["computed"], row["masked"]) for row in answers[8]] == [("pay", "0", "1")]


def test_a_time_that_is_none_is_refused(day):
    """To SQLite a date without its quotes is the number 1995, and everything would be answered with nothing."""
    if day.url is not None:
        done = subprocess.run(["psql", "-X", "-q", "-d", day.url, "-v", "from=someday", "-f", ANALYTICS / "questions.postgres.sql"],
                              capture_output=True, text=True, timeout=600)
        assert done.returncode != 0 and "someday" in done.stderr and not done.stdout
        return
    for value in ("2026-11-20", "someday"):
        done = day.sqlite3(f".parameter set :from {value}")
        assert done.returncode != 0 and "from and to are times in quotes" in done.stderr and not done.stdout, done


def test_the_questions_read_what_is_asked_for_and_read_it_once(day):
    """Not the whole store, and not again for each review."""
    plan = day.plan("SELECT * FROM waited")
    if day.url is not None:
        assert "happened" in plan and "records" not in plan, plan
    else:
        assert plan.count("SEARCH records USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)") == 2 and "SEARCH ended" in plan, plan

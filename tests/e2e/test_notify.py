"""Messages about reviews: to whom, what they say, how they are signed, and that none is lost."""

import collections
import email
import email.policy
import random
import subprocess

import pytest

import harness
import receiver
from receiver import Receiver, verify

POLICY = """
rules:
  - {id: refunds, actions: [refund], decision: human_review, reason: Refunds need a person., review: {notify: [hook]}}
  - {id: two, actions: [launch], decision: human_review, review: {approvals: 2, notify: [hook]}}
  - {id: brief, actions: [brief], decision: human_review, review: {good_for: 1s, notify: [hook]}}
  - {id: quick, actions: [quick], decision: human_review, review: {expires_in: 2s, notify: [hook], remind: 1s}}
  - {id: slow, actions: [slow], decision: human_review, review: {notify: [hook], remind: 1s}}
  - {id: first, actions: [merge], decision: human_review, review: {notify: [hook]}}
  - {id: second, actions: [merge], decision: human_review, review: {notify: [other, hook]}}
  - {id: nobody, actions: [odd], decision: human_review, review: {notify: [missing]}}
  - {id: plain, actions: [plain], decision: human_review}
"""


class Notified:
    """A stack whose platform has channels, with a reviewer, and a receiver of them."""

    def __init__(self, fresh, folder, **channels):
        self.receiver, self.folder = Receiver().start(), folder
        self.secret = folder / "secret"
        self.secret.write_text(receiver.SECRET + "\n")
        self.secret.chmod(0o600)
        options = ["--public_url", "https://writ.example/base/"]
        for name, more in (channels or {"hook": {}}).items():
            for key, value in {**self.defaults(name, more), **more}.items():
                options += [f"--notify.{name}.{key}", str(value)]
        self.stack = fresh(platform=options).start()
        self.carol = self.stack.key("carol", ["reviewer"], owner="carol", reviewers=["*"], wait=False)
        self.rita = self.stack.key("rita", ["reviewer"], owner="rita", reviewers=["*"], wait=False)
        self.stack.policy("base", POLICY)

    def defaults(self, name, more):
        kind = more.get("kind", "webhook")
        found = {"kind": kind, "allow_private": "true", "allow_plaintext": "true"}
        if not {"url", "url_file"} & set(more):
            found["url"] = f"{self.receiver.url}/{name}"
        if kind == "webhook":
            found["secret_file"] = self.secret
        return found

    def ask(self, action, **members):
        body = {"action": action, "actor": "bot", "confidence": 1, **members}
        with self.stack.at_engine() as wire:
            reply = wire.post("/v1/agent/authorize", body)
        assert reply.status == 200 and reply.json["decision"] == "human_review", reply
        return reply.json["review_id"], body

    def call(self, review, verb, key=None, body=None):
        with self.stack.at_engine(key or self.rita) as wire:
            reply = wire.post(f"/v1/queue/{review}/{verb}", body)
        assert reply.status == 200, reply
        return reply.json

    def wait(self, count, path="/hook"):
        harness.eventually(lambda: len(self.receiver.at(path)) >= count, f"{count} messages at {path}")
        return self.receiver.at(path)

    def types(self, count, path="/hook"):
        return [message.json["type"] for message in self.wait(count, path)]

    def health(self):
        with self.stack.at_platform() as wire:
            return wire.get("/healthz").json

    def metric(self, name):
        return self.stack.metrics(self.stack.platform)[f"writ_platform_notify_{name}"]


@pytest.fixture
def notified(fresh, tmp_path):
    made = []

    def make(**channels):
        made.append(Notified(fresh, tmp_path, **channels))
        return made[-1]

    yield make
    for one in made:
        one.receiver.stop()


def test_a_review_is_announced_and_followed_up(notified):
    it = notified()
    review, asked = it.ask("refund", resource={"type": "order", "id": "4711"}, acting_for="dave", args={"card": "4111"}, context={"why": "x"})
    first, = it.wait(1)
    body = verify(first)
    assert body["type"] == "review.enqueued" and first.headers["content-type"] == "application/json"
    data = body["data"]
    assert data["review_id"] == review and data["url"] == f"https://writ.example/base/console/#/review/{review}"
    assert data["request"] == {"acting_for": "dave", "action": "refund", "actor": "bot", "resource": {"id": "4711", "type": "order"}}
    assert (data["policy_name"], data["rule"], data["reason"], data["tenant_id"]) == ("base", "review:refunds", "Refunds need a person.", "default")
    assert b"4111" not in first.body and first.id == data["event_id"], "arguments stay here"
    it.call(review, "approve", body={"note": "fine"})
    it.call(review, "redeem", key=it.stack.keys["agent"], body=asked)
    assert it.types(3) == ["review.enqueued", "review.approved", "review.redeemed"]
    approved = verify(it.wait(3)[1])["data"]
    assert (approved["resolved_by"], approved["resolution_note"], approved["approved"], approved["approvals"]) == ("rita", "fine", True, 1)
    assert "expires_at" in approved and len({message.id for message in it.wait(3)}) == 3
    harness.eventually(lambda: it.metric("sent_total{outcome=\"delivered\"}") == 3, "all are noted")
    health = it.health()
    assert health["checks"]["notify"] == "ok"
    assert health["channels"] == [{"error": "", "kind": "webhook", "name": "hook", "oldest": None, "tries": 0, "waiting": 0}]
    assert it.metric("repeated_total") == 0 and it.metric("waiting") == 0


def test_every_channel_of_every_rule_that_asks_is_told_once(notified):
    it = notified(hook={}, other={})
    it.ask("merge")
    assert it.types(1) == it.types(1, "/other") == ["review.enqueued"]
    it.ask("plain")
    review, _ = it.ask("refund")
    it.call(review, "deny")
    assert it.types(3) == ["review.enqueued", "review.enqueued", "review.denied"] and len(it.wait(1, "/other")) == 1


def test_a_vote_that_is_not_the_last_says_so(notified):
    it = notified()
    review, _ = it.ask("launch")
    it.call(review, "approve", it.carol)
    it.call(review, "approve", it.rita)
    votes = [message.json["data"] for message in it.wait(3)[1:]]
    assert [(vote["resolved_by"], vote["approvals"], vote["approved"]) for vote in votes] == [("carol", 1, False), ("rita", 2, True)]


def test_a_review_that_ends_by_itself_is_followed_up(notified):
    it = notified()
    review, _ = it.ask("brief")
    it.call(review, "approve")
    it.ask("quick")
    kinds = sorted(it.types(6))
    assert kinds == ["review.approved", "review.enqueued", "review.enqueued", "review.expired", "review.lapsed", "review.reminder"]


def test_a_reminder_comes_unless_the_review_is_resolved(notified):
    it = notified()
    done, _ = it.ask("slow")
    it.call(done, "deny")
    waits, _ = it.ask("slow")
    assert it.types(4) == ["review.enqueued", "review.denied", "review.enqueued", "review.reminder"]
    last = it.wait(4)[3]
    assert last.json["data"]["review_id"] == waits and last.id == last.json["data"]["event_id"] + ".reminder"
    assert last.json["data"]["event_id"] == it.wait(3)[2].id


def test_the_asker_is_told_what_becomes_of_its_reviews(notified):
    it = notified(hook={}, mine={"asker": "bot,bat"}, other={"asker": "somebody"}, all={"asker": "*"}, foreign={"asker": "*", "tenant": "acme"})
    review, asked = it.ask("plain")
    it.call(review, "approve")
    it.call(review, "redeem", key=it.stack.keys["agent"], body=asked)
    review, _ = it.ask("launch", actor="bat")
    it.call(review, "approve", it.carol)
    it.call(review, "deny", it.rita)
    it.ask("quick")
    assert it.types(3, "/mine") == it.types(3, "/all") == ["review.approved", "review.denied", "review.expired"]
    assert not it.receiver.at("/other") and not it.receiver.at("/foreign")


def test_a_channel_that_is_not_there_is_told(notified):
    it = notified(hook={"tenant": "acme"})
    it.ask("odd")
    check = harness.eventually(lambda: (text := it.health()["checks"]["notify"]) != "ok" and text, "the check fails")
    assert check == "policy base names the channel missing, which is not configured for its tenant"
    it.ask("refund")
    harness.eventually(lambda: "names the channel hook," in it.health()["checks"]["notify"], "a channel of another tenant is none")
    assert it.metric("dropped_total{why=\"channel\"}") == 2 and not it.receiver.messages


# ---- targets that misbehave ----

# What a target does, how the message ends (delivered or not), and what is told of it.
TARGETS = {
    "not-found": (404, "it answered HTTP 404"),
    "too-many": (429, "it answered HTTP 429"),
    "redirect": ("redirect", "it answered HTTP 307, and redirects are not followed"),
    "huge": ("huge", None),
    "huge-head": ("huge-head", "the head of its answer is larger than 16 KiB"),
    "liar": ("liar", "Transferred a partial file"),
    "no-http": ("no-http", "Unsupported protocol"),
}


def test_targets_that_misbehave_delay_no_other_and_are_tried_again(notified):
    it = notified(hook={}, **{name: {} for name in TARGETS}, silent={}, drip={})
    for name, (mode, _) in TARGETS.items():
        it.receiver.modes[f"/{name}"] = mode
    it.receiver.modes |= {"/silent": "silent", "/drip": "drip"}
    names = ["hook", *TARGETS, "silent", "drip"]
    it.stack.policy("more", "rules:\n" + "".join(
        f"  - {{id: some-{at}, actions: [all], decision: human_review, review: {{notify: [{', '.join(names[at:at + 8])}]}}}}\n" for at in (0, 8)))
    it.ask("all")
    it.wait(1)
    wrong = {name: text for name, (_, text) in TARGETS.items() if text}

    def told():
        now = {channel["name"]: channel for channel in it.health()["channels"]}
        return now if all(now[name]["error"] for name in wrong) and now["huge"]["waiting"] == 0 else None

    now = harness.eventually(told, "each has failed once")
    assert {name: now[name]["error"] for name in wrong} == wrong
    assert len(it.wait(1, "/huge")) == 1 and not it.receiver.at("/elsewhere")
    for name in wrong:
        again = [message.id for message in it.wait(2, f"/{name}")]
        assert len(set(again)) == 1, "the same id"
    it.receiver.modes.clear()
    harness.eventually(lambda: not any(channel["waiting"] for channel in it.health()["channels"] if channel["name"] in wrong), "all is delivered in the end")


# ---- Slack, Teams, mail ----

HOSTILE = "<!channel> *bold* [here](http://evil) \u202eevil\u200b\n> x"
SHOWN = "<!channel> *bold* [here](http://evil) \\u{202E}evil\\u{200B}\\u{A}> x"
FORMATS = """
rules:
  - {id: all, actions: ["*"], decision: human_review, review: {notify: [%s]}}
"""


def within(value, name):
    """Every value of this name, anywhere."""
    if isinstance(value, dict):
        return [found for key, item in value.items() for found in ([item] if key == name else []) + within(item, name)]
    return [found for item in value for found in within(item, name)] if isinstance(value, list) else []


def test_slack_gets_blocks_in_which_an_agents_words_are_literal(notified):
    it = notified(slack={"kind": "slack"})
    it.stack.policy("base", FORMATS % "slack")
    review, _ = it.ask(HOSTILE, resource={"type": "a", "id": HOSTILE}, acting_for=HOSTILE)
    it.call(review, "approve", body={"note": HOSTILE})
    for message in it.wait(2, "/slack"):
        body = message.json
        header, text = body["blocks"]
        assert (header["type"], header["text"]["type"], text["type"]) == ("header", "plain_text", "rich_text")
        assert len(header["text"]["text"]) <= 150 and len(body["text"]) <= 3000 and len(body["blocks"]) <= 50
        assert {part["type"] for part in text["elements"]} == {"rich_text_section", "rich_text_quote"}
        inner = [element for part in text["elements"] for element in part["elements"]]
        assert {element["type"] for element in inner} == {"text", "link"} and all(0 < len(element["text"]) <= 3000 for element in inner)
        assert within(body, "url") == [f"https://writ.example/base/console/#/review/{review}"]
        quote, = [part for part in text["elements"] if part["type"] == "rich_text_quote"]
        assert f"action: {SHOWN}\n" in quote["elements"][0]["text"] and "evil" not in body["text"] + header["text"]["text"]
    assert f"resource: a:{SHOWN}\n" in it.wait(1, "/slack")[0].body.decode().replace("\\n", "\n").replace("\\\\", "\\")


def test_teams_gets_a_card_in_which_an_agents_words_are_literal(notified):
    it = notified(teams={"kind": "teams"})
    it.stack.policy("base", FORMATS % "teams")
    review, _ = it.ask(HOSTILE, acting_for=HOSTILE)
    message, = it.wait(1, "/teams")
    attachment, = message.json["attachments"]
    assert message.json["type"] == "message" and attachment["contentType"] == "application/vnd.microsoft.card.adaptive"
    card = attachment["content"]
    assert (card["type"], card["version"]) == ("AdaptiveCard", "1.4") and "actions" not in card
    markdown = [block["text"] for block in card["body"] if block["type"] == "TextBlock"]
    assert markdown[-1] == f"[Open the review](https://writ.example/base/console/#/review/{review})"
    assert not any("evil" in text or "channel" in text for text in markdown), "a TextBlock takes Markdown"
    container, = [block for block in card["body"] if block["type"] == "Container"]
    assert f"action: {SHOWN}\n" in container["items"][0]["inlines"][0]["text"] and len(message.body) < 28 << 10, "Teams takes 28 KB"


def test_mail_is_sent_by_smtp(notified, fresh, tmp_path):
    with receiver.MailServer() as server:
        it = notified(mail={"kind": "mail", "url": f"smtp://127.0.0.1:{server.port}", "from": "writ@example.com", "to": "ops@example.com, eve@example.com"})
        it.stack.policy("base", FORMATS % "mail")
        review, _ = it.ask(HOSTILE, acting_for="\u00fcber.\n.\n")
        it.call(review, "deny")
        harness.eventually(lambda: len(server.envelopes) == 2, "two mails")
        first, second = [email.message_from_bytes(envelope.content, policy=email.policy.default) for envelope in server.envelopes]
        assert server.envelopes[0].mail_from == "writ@example.com" and server.envelopes[0].rcpt_tos == ["ops@example.com", "eve@example.com"]
        assert (first["Subject"], second["Subject"]) == ("A review waits for a decision", "A review was denied")
        assert second["In-Reply-To"] == first["Message-ID"] and first["Auto-Submitted"] == "auto-generated"
        assert not first.defects and first.get_content_type() == "text/plain"
        lines = first.get_content().replace("\r\n", "\n").splitlines()
        assert f"> action: {SHOWN}" in lines and "> on behalf of: \u00fcber.\\u{A}.\\u{A}" in lines
        assert f"Open the review: https://writ.example/base/console/#/review/{review}" in lines
        assert "by: rita" in second.get_content()


def test_mail_without_starttls_is_not_sent(notified):
    with receiver.MailServer() as server:
        it = notified(mail={"kind": "mail", "url": f"smtp://127.0.0.1:{server.port}", "from": "a@example.com", "to": "b@example.com", "allow_plaintext": "false"})
        it.stack.policy("base", FORMATS % "mail")
        it.ask("x")
        harness.eventually(lambda: it.health()["channels"][0]["error"] == "Requested SSL level failed", "it is refused")
        assert not server.envelopes


# ---- where messages may go ----


def test_an_address_that_is_not_public_is_refused(notified):
    it = notified(address={"allow_private": "false"}, name={"allow_private": "false", "url": "http://localhost:1/name"}, own={})
    it.stack.policy("base", FORMATS % "address, name, own")
    it.ask("x")
    it.wait(1, "/own")
    wrong = "its address is not public, and allow_private is not set"
    harness.eventually(lambda: [channel["error"] for channel in it.health()["channels"]] == [wrong, wrong, ""], "both are refused")
    assert not it.receiver.at("/address") + it.receiver.at("/name")


def test_a_wrong_channel_ends_the_start_and_names_the_option(fresh):
    stack = fresh(platform=["--notify.x.kind", "slack", "--notify.x.url", "http://a/b"])
    with pytest.raises(AssertionError, match="notify.x.url: must be https://"):
        stack.start()


# ---- what a policy may say ----


@pytest.mark.parametrize("terms, told", [
    ("notify: []", "rules[0].review.notify: is empty; leave it out or name a channel"),
    ("notify: hook", "rules[0].review.notify: "),
    ("notify: [Hook]", "rules[0].review.notify[0]: \"Hook\" is not the name of a channel: a lowercase letter, then lowercase letters, digits and -"),
    ("notify: [a, b, c, d, e, f, g, h, i]", "rules[0].review.notify: "),
    ("remind: 10m", "rules[0].review.remind: reminds the channels of notify, and there is no notify"),
    ("notify: [hook], remind: 30m", "rules[0].review.remind: comes too late: the review has expired by then (expires_in)"),
    ("notify: [hook], remind: 10", "rules[0].review.remind: has to say its unit, as in 90s, 30m, 1h or 2d"),
])
def test_what_a_rule_cannot_ask_for_is_refused(tmp_path, terms, told):
    document = tmp_path / "base.yaml"
    document.write_text(f"rules:\n  - {{id: x, actions: [x], decision: human_review, review: {{{terms}}}}}\n")
    done = subprocess.run([harness.BIN / "writ", "policy", "check", document], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and told in (done.stdout + done.stderr), done


# ---- a platform that dies ----

def test_a_message_whose_fate_is_unknown_is_sent_again_with_its_id(notified):
    it = notified()
    it.receiver.modes["/hook"] = "silent"
    it.ask("refund")
    it.wait(1)
    it.stack.platform.kill()
    it.receiver.modes.clear()
    it.stack.platform.start()
    first, second = it.wait(2)
    assert first.id == second.id and verify(second) == first.json
    harness.eventually(lambda: it.metric("repeated_total") == it.metric("sent_total{outcome=\"delivered\"}") == 1, "it is counted")


KILLS = 50 if harness.LONG else 3


def test_each_message_comes_at_least_once_and_few_come_twice_whatever_dies(notified):
    """Two platforms on one store; either is killed while messages are on their way."""
    it = notified()
    it.receiver.delay = 0.02  # so that a kill often meets a message that was taken and is not noted
    second = harness.Program("writ-platform", harness.free_port(), [], it.folder / "second.log")
    second.arguments = ["--data", str(it.folder / "second"), "--store", str(it.stack.data / "platform.db"), "--pepper_file", str(it.stack.data / "pepper"),
                        "--listen", f"127.0.0.1:{second.port}", *it.stack.platform.arguments[it.stack.platform.arguments.index("--public_url"):]]
    second.start()
    reviews, repeated, chance = [], 0, random.Random(7)
    try:
        for kill in range(KILLS):
            for number in range(12):
                review, _ = it.ask("refund", actor=f"bot-{kill % 20}", args={"number": f"{kill}-{number}"})
                it.call(review, "deny")
                reviews.append(review)
            seen = len(it.receiver.messages) + chance.randrange(8)
            harness.eventually(lambda: len(it.receiver.messages) >= min(seen, 2 * len(reviews)), "some are sent")
            victim = chance.choice([it.stack.platform, second])
            victim.kill()
            victim.start()
        wanted = {(review, kind) for review in reviews for kind in ("review.enqueued", "review.denied")}
        sent = lambda: [(message.json["data"]["review_id"], message.json["type"]) for message in list(it.receiver.messages)]
        harness.eventually(lambda: set(sent()) == wanted, "each has come", seconds=600)
    finally:
        second.end()
    counted = collections.Counter(sent())
    doubles = sum(counted.values()) - len(counted)
    ids = collections.Counter(message.id for message in it.receiver.messages)
    assert len(ids) == len(wanted), "a second copy has the id of the first"
    print(f"{KILLS} kills, {len(wanted)} messages, {doubles} of them twice")
    assert doubles <= KILLS
    first = {}
    for at, (review, kind) in enumerate(sent()):
        first.setdefault((review, kind), at)
    assert all(first[review, "review.enqueued"] < first[review, "review.denied"] for review in reviews), "in their order"

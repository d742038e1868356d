"""The console in a browser, as a reviewer uses it, on running programs.

WRIT_SCREENSHOTS=1 makes the pictures of docs/images/ again.
"""

import gzip
import http.client
import json
import os
import re
import time

import pytest

import chromium
import harness
from chromium import DESK, PHONE

PICTURES = os.environ.get("WRIT_SCREENSHOTS") == "1"
TRANSFERRED_MAX = 150 * 1024

POLICY = """description: Refunds and the payroll job.
roles: {finance: [carol, dan, erin]}
rules:
  - {id: reads, agents: ["*"], actions: ["get_*"], decision: allow}
  - {id: drops, agents: ["*"], actions: ["drop_*"], decision: deny, reason: Nothing is dropped here.}
  - {id: refund, agents: ["*"], actions: [refund], decision: human_review, reason: Refunds need finance., review: {by: [finance], good_for: 15m}}
  - {id: mails, agents: ["*"], actions: [send_mail], decision: allow, limit: {count: 5, per: actor, window: 1h}}
  - {id: large, agents: ["*"], actions: [large_refund], decision: human_review, reason: Large refunds need two people., review: {by: [finance], approvals: 2}}
  - {id: short, agents: ["*"], actions: [hurry], decision: human_review, reason: This cannot wait., review: {by: [finance], expires_in: 4s}}
  - {id: edits, agents: ["*"], actions: [edit_file], decision: human_review, reason: A person looks at edits of the payroll job., review: {by: [finance]}}
"""

ROLES = ["reviewer", "auditor", "policy_admin", "admin"]


def address(stack):
    return stack.platform.url


@pytest.fixture(scope="module")
def writ(tmp_path_factory):
    chromium.needed()
    anchors = tmp_path_factory.mktemp("anchors") / "disk.jsonl"
    with harness.Stack(platform=["--anchor.disk.file", anchors, "--anchor.disk.every", "1s"]) as stack:
        stack.policy("payments", POLICY)
        for name in ("carol", "dan"):
            stack.keys[name] = stack.key(f"{name}s-key", ROLES, owner=name, wait=False)
        stack.keys["erin"] = stack.key("erins-key", ["reviewer"], owner="erin")
        stack.keys["asker"] = stack.key("carols-agent", ["agent", "app"], owner="carol", actors=["*"], users=["*"])
        yield stack


@pytest.fixture(scope="module")
def stranger(tmp_path_factory):
    """A browser without a session."""
    chromium.needed()
    one = chromium.Browser(tmp_path_factory.mktemp("browser"))
    yield one
    one.quiet()
    one.close()


@pytest.fixture(scope="module")
def page(writ, stranger):
    """The same one, in which carol is signed in."""
    sign_in(stranger, writ, "carol")
    return stranger


def sign_in(page, stack, name, url=None):
    page.go(f"{url or address(stack)}/console/")
    page.write("#key", stack.keys[name])
    page.click("form button", "Sign in")
    page.see("Inbox", "h1")


def open_screen(page, stack, *steps):
    page.go(f"{address(stack)}/console/#/{'/'.join(steps)}")


def ask(stack, action, key="agent", **members):
    with stack.at_engine(key) as wire:
        reply = wire.post("/v1/agent/authorize", {"actor": "invoice_bot", "action": action, **members})
    assert reply.status == 200, reply
    return reply.json


def redeem(stack, review, action, key="agent", **members):
    with stack.at_engine(key) as wire:
        return wire.post(f"/v1/queue/{review}/redeem", {"actor": "invoice_bot", "action": action, **members}).json


def vote(stack, name, review, outcome="approve"):
    with stack.at_engine(name) as wire:
        reply = wire.post(f"/v1/queue/{review}/{outcome}", {})
    assert reply.status == 200, reply


def review_now(stack, review):
    with stack.at_engine("erin") as wire:
        return wire.get(f"/v1/queue/{review}").json


def get(stack, path, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", stack.platform.port)
    connection.request("GET", path, headers=headers)
    reply = connection.getresponse()
    return reply.status, dict(reply.getheaders()), reply.read()


# ---- what is served ----


def test_the_files_are_small_and_nothing_else_may_run(writ):
    status, headers, index = get(writ, "/console/")
    assert status == 200 and headers["Cache-Control"] == "no-cache"
    names = re.findall(r'(?:href|src)="([0-9a-f]{16}/[^"]+)"', index.decode())
    assert len(names) == 5, index
    digest = names[0].split("/")[0]
    files, todo = {}, [name.split("/")[1] for name in names]
    while todo:
        name = todo.pop()
        if name in files:
            continue
        status, headers, body = get(writ, f"/console/{digest}/{name}", **{"Accept-Encoding": "gzip"})
        assert status == 200 and headers["Content-Encoding"] == "gzip" and "immutable" in headers["Cache-Control"], (name, headers)
        plain = gzip.decompress(body)
        assert get(writ, f"/console/{digest}/{name}")[2] == plain
        files[name] = (len(body), len(plain))
        todo += re.findall(r'from "\./([a-z_]+\.js)"', plain.decode())
        for header, value in (("X-Content-Type-Options", "nosniff"), ("Referrer-Policy", "no-referrer")):
            assert headers[header] == value, (name, headers)
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy and "unsafe" not in policy, policy
    transferred = len(index) + sum(size for size, _ in files.values())
    print(f"console: {transferred} bytes to load, {len(index) + sum(plain for _, plain in files.values())} uncompressed, {len(files) + 1} files")
    assert transferred <= TRANSFERRED_MAX
    own = {path.name for path in (harness.TOP / "src/platform/console").iterdir()} - {"index.html"}
    assert own <= set(files), f"nothing loads {own - set(files)}"


def test_a_page_is_loaded_again_only_when_it_changed(writ):
    _, headers, _ = get(writ, "/console/")
    assert get(writ, "/console/", **{"If-None-Match": headers["ETag"]})[0::2] == (304, b"")
    assert get(writ, "/console/", **{"If-None-Match": '"another"'})[0] == 200
    assert get(writ, "/console/0123456789abcdef/app.js")[0] == 404  # of another version
    assert get(writ, f"/console/{headers['ETag'].strip(chr(34))}/../app.js")[0] == 404


def test_a_browser_is_led_to_the_console_and_a_program_is_not(writ):
    for path in ("/", "/console"):
        status, headers, _ = get(writ, path, Accept="text/html,*/*")
        assert (status, headers.get("Location")) == (302, "console/"), path
    assert get(writ, "/", Accept="application/json")[0] == 404


def test_the_console_can_be_switched_off(fresh):
    stack = fresh(platform=["--console", "false"])
    stack.make_first_keys()
    stack.platform.start()
    assert [get(stack, path, Accept="text/html")[0] for path in ("/", "/console", "/console/")] == [404, 404, 404]
    stack.platform.stop()


# ---- a reviewer's work ----


def test_a_wrong_key_is_refused_in_words(writ, stranger):
    stranger.go(f"{address(writ)}/console/")
    stranger.write("#key", "wk_wrong")
    stranger.click("form button", "Sign in")
    stranger.find("[role=alert]")
    assert stranger.violations() == []


def test_a_request_is_approved_and_the_page_follows_it(writ, page):
    args = {"amount": 62, "order": "18"}
    review = ask(writ, "refund", resource="order:18", args=args, acting_for="zoe")["review_id"]
    open_screen(page, writ, "inbox")
    page.click("a.title", "order:18")
    page.see("invoice_bot wants to refund on order:18", "h1")
    page.see("It says that it acts for zoe. claimed")
    page.see('"18"', ".parts")  # a text, not a number
    page.see("Refunds need finance.")
    page.scroll()
    page.write("#note", "Seen the order.")
    page.click("button", "Approve")
    page.see("Waiting for the agent", ".state")
    vote_there = review_now(writ, review)["approvals"][0]
    assert vote_there["resolved_by"] == "carol" and vote_there["note"] == "Seen the order." and vote_there["proof"] == "key"
    assert redeem(writ, review, "refund", resource="order:18", args=args, acting_for="zoe")["decision"] == "allow"
    page.see("The agent used the approval at", ".state")


def test_a_request_is_denied(writ, page):
    review = ask(writ, "refund", resource="order:19", args={"amount": 1})["review_id"]
    open_screen(page, writ, "review", review)
    page.click("button", "Deny")
    page.see("Denied by carol", ".state")
    assert review_now(writ, review)["status"] == "denied"


def test_an_approval_is_taken_back(writ, page):
    review = ask(writ, "refund", resource="order:20", args={"amount": 1})["review_id"]
    open_screen(page, writ, "review", review)
    page.see("Arguments")
    page.scroll()
    page.click("button", "Approve")
    page.click("button", "Take back")
    page.see("The approval was taken back by carol", ".state")
    assert review_now(writ, review)["status"] == "cancelled"


def test_of_two_votes_each_is_shown_when_it_comes(writ, page):
    review = ask(writ, "large_refund", resource="order:21", args={"amount": 9000})["review_id"]
    open_screen(page, writ, "review", review)
    page.see("Needed: 2 people of finance", ".state")
    vote(writ, "dan", review)
    page.see("dan has agreed. Needed: one person of finance", ".state")
    page.scroll()
    page.click("button", "Approve")
    page.see("Approved by dan, carol", ".state")


def test_mine_has_what_a_vote_can_still_help(writ, page):
    open_for_me, voted = (ask(writ, "large_refund", resource=f"order:9{n}", args={"amount": n})["review_id"] for n in (1, 2))
    asked_for_me = ask(writ, "refund", resource="order:93", args={"amount": 3}, acting_for="carol")["review_id"]
    vote(writ, "carol", voted)
    open_screen(page, writ, "inbox", "mine")
    page.find(f"[data-review={open_for_me}]")
    assert not page.all(f"[data-review={voted}]") and not page.all(f"[data-review={asked_for_me}]")
    page.click(".tabs a", "All waiting")
    page.find(f"[data-review={voted}]")
    page.find(f"[data-review={asked_for_me}]")


def test_who_asked_cannot_approve(writ, page):
    review = ask(writ, "refund", key="asker", resource="order:22", args={"amount": 1})["review_id"]
    open_screen(page, writ, "review", review)
    page.see("Arguments")
    page.scroll()
    page.click("button", "Approve")
    page.see("self_review", ".actions")
    assert review_now(writ, review)["status"] == "pending"


def test_a_review_expires_while_it_is_open(writ, page):
    review = ask(writ, "hurry", args={"what": "x"})["review_id"]
    open_screen(page, writ, "review", review)
    page.see("Expired: too few people agreed", ".state")
    assert not page.all(".actions button")


def test_a_review_that_somebody_else_resolved_says_so(writ, page):
    review = ask(writ, "refund", resource="order:23", args={"amount": 1})["review_id"]
    open_screen(page, writ, "review", review)
    page.see("Nobody has agreed yet", ".state")
    vote(writ, "dan", review, "deny")
    page.see("Denied by dan", ".state")


def test_what_was_not_on_screen_cannot_be_approved(writ, page):
    review = ask(writ, "edit_file", args={"path": "payroll.py", "text": "\n".join(f"line {n}" for n in range(200))})["review_id"]
    open_screen(page, writ, "review", review)
    page.see("Approve is off until all was on screen")
    page.click("button", "Approve")
    page.press("a", "\ue007")
    assert review_now(writ, review)["status"] == "pending"
    page.scroll()
    page.gone("Approve is off")
    page.click("button", "Approve")
    page.see("Waiting for the agent", ".state")


def test_nothing_in_a_text_is_hidden_or_run(writ, page):
    hidden = "a\u202eb\u200bc\u00add\x1b[31m p\u0430ypal \U000e0041\u3164"
    review = ask(writ, "edit_file", args={"note": hidden, "<img src=x onerror=alert(1)>": "<script>alert(1)</script>",
                                          "number": 12345678901234567890, "__proto__": {"x": 1}, "empty": ""},
                 context={"html": "<b onclick=alert(1)>bold</b>"})["review_id"]
    open_screen(page, writ, "review", review)
    for code in ("U+202E right-to-left override", "U+200B", "U+00AD", "U+001B escape", "U+0430", "U+E0041", "U+3164", "12345678901234567890",
                 "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "__proto__", '""', "Look twice"):
        page.see(code, "main")
    page.see("<b onclick=alert(1)>bold</b>", ".claims")
    assert page.run("return document.querySelectorAll('main img, main script, main b[onclick]').length") == 0


def test_an_edit_is_shown_as_a_change(writ, page):
    review = ask(writ, "edit_file", args={"path": "payroll.py", "old_string": "a = 1\nb = 2\n", "new_string": "a = 1\nb = 3\n"})["review_id"]
    open_screen(page, writ, "review", review)
    page.see("b = 3", "ins")
    page.see("b = 2", "del")


def test_several_are_approved_at_once(writ, page):
    reviews = [ask(writ, "refund", resource=f"order:3{n}", args={"amount": n})["review_id"] for n in range(2)]
    other = ask(writ, "refund", resource="order:39", args={"amount": 2})["review_id"]
    open_screen(page, writ, "inbox", "all")
    page.find(f"[data-review={other}]")
    page.scroll()
    for review in reviews:
        page.find(f"[data-review={review}] input:not(:disabled)").click()
    page.click(".actions button", "Approve")
    page.see("Approve 2 reviews?", "dialog")
    page.click("dialog button", "Approve")
    harness.eventually(lambda: page.all("dialog .badge") == ["approved", "approved"], "both are approved")
    page.click("dialog button", "Close")
    assert [review_now(writ, review)["status"] for review in (*reviews, other)] == ["approved", "approved", "pending"]


def test_the_keyboard_is_enough(writ, page):
    review = ask(writ, "refund", resource="order:40", args={"amount": 4})["review_id"]
    open_screen(page, writ, "inbox", "all")
    page.write("[type=search]", "order:40")
    page.see("1 review", "[role=status]")
    page.press("\ue004")  # out of the field
    page.press("k", "\ue007")
    page.see("order:40", "h1")
    page.see("Your yes is the last one")
    page.press("a", "\ue007")
    page.see("Waiting for the agent", ".state")
    assert review_now(writ, review)["status"] == "approved"
    page.press("?")
    page.see("single keys work", "dialog")
    page.press("\ue00c")
    page.gone("single keys work")


# ---- the other screens ----


def test_a_trace_tells_the_whole_story(writ, page):
    decision = ask(writ, "refund", resource="order:50", args={"amount": 5}, trace_id="order-50")
    vote(writ, "dan", decision["review_id"])
    redeem(writ, decision["review_id"], "refund", resource="order:50", args={"amount": 5}, trace_id="order-50")
    writ.trace("order-50", count=4)
    open_screen(page, writ, "trace", "order-50")
    for kind in ("review enqueued", "review approved", "review redeemed", "by dan"):
        page.see(kind, ".timeline")
    assert page.violations() == []


def test_the_audit_trail_is_searched_and_exported(writ, page):
    ask(writ, "drop_table", trace_id="dropped")
    ask(writ, "get_table", trace_id="read")
    writ.trace("read")
    open_screen(page, writ, "audit")
    page.write("#action", "drop_table")
    page.click("button", "Search")
    page.see("1 event", "[role=status]")
    page.see("drop_table", ".events")
    assert not page.sees("get_table", ".events")
    page.click("button", "Export")
    page.see("1 event saved.")
    saved = page.folder / "audit.ndjson"
    harness.eventually(saved.exists, "the file is saved")
    assert [json.loads(line)["trace_id"] for line in saved.read_text().splitlines()] == ["dropped"]


def test_an_agent_is_suspended_and_resumed(writ, page):
    with writ.at_engine("agent") as wire:
        assert wire.post("/v1/agent/authorize", {"actor": "wild_bot", "action": "get_x", "trace_id": "wild"}).json["decision"] == "allow"
        writ.trace("wild")
        open_screen(page, writ, "agents", "wild_bot")
        page.write("#reason", "It asks too much.")
        page.click("button", "Suspend")
        page.see("Suspended: every request is denied")
        assert wire.post("/v1/agent/authorize", {"actor": "wild_bot", "action": "get_x"}).json["rule"] == "actor:suspended"
        page.see("It asks too much.")
        open_screen(page, writ, "agents")
        page.see("suspended", "tbody")
        page.click("a", "wild_bot")
        page.write("#reason", "It was restarted.")
        page.click("button", "Resume")
        page.see("Resumed.")
        assert wire.post("/v1/agent/authorize", {"actor": "wild_bot", "action": "get_x"}).json["decision"] == "allow"


def test_a_review_shows_that_its_agent_was_suspended(writ, page):
    with writ.at_engine("agent") as wire:
        review = wire.post("/v1/agent/authorize", {"actor": "stopped_bot", "action": "refund", "args": {}}).json["review_id"]
    open_screen(page, writ, "review", review)
    page.see("Nobody has agreed yet", ".state")
    with writ.at_engine("admin") as wire:
        assert wire.post("/v1/actors/stopped_bot/suspend", {"reason": "x"}).status == 200
    page.gone("Nobody has agreed yet", ".state")
    assert not page.all(".actions button.good")


def test_what_is_left_of_a_limit_is_shown(writ, page):
    ask(writ, "send_mail", actor="mail_bot", trace_id="mailed")
    writ.trace("mailed")
    open_screen(page, writ, "agents", "mail_bot")
    page.click("button", "Show what is left of the limits")
    page.see("payments: mails, per actor: 4 requests left", "main")


def test_a_policy_is_checked_put_and_rolled_back(writ, page):
    open_screen(page, writ, "policies", "payments")
    page.see("Not changed.")
    page.find("#document").send_keys("  - {id: more, actions: [x], decision: alow}\n")
    page.see('"alow" is not one of', ".check")
    page.see("Line ", ".check")
    page.find("#document").send_keys("\ue003" * 6 + "allow, agents: [zed]}\n")
    page.see("valid", ".check")
    page.see("id: more", "ins")
    page.click("button", "Put in force")
    page.see("Version 2 is in force.")
    with writ.at_platform("admin") as wire:  # somebody else is faster
        assert wire.put("/api/v1/policies/payments", {"content": POLICY + "# three\n"}).status == 200
    page.find("#document").send_keys("# mine\n")
    page.see("valid", ".check")
    page.click("button", "Put in force")
    page.click("button", "Load the newer version, and keep my text")
    page.see("# three", "del")
    page.click("button", "Undo")
    page.click("button", "Compare")
    page.see("From version 2 to version 3", "h3")
    page.click("button[aria-label='Roll back to version 1']")
    page.see("Version 1 is back. Version 4 is in force.")
    with writ.at_platform("admin") as wire:
        assert wire.get("/api/v1/policies/payments").json["content"] == POLICY


def test_a_request_is_explained(writ, page):
    open_screen(page, writ, "policies")
    page.write("#request", '{"actor": "x", "action": "refund"}')
    page.click("button", "Explain")
    page.see("review:refund", "main")
    page.see("payments: reads", "main")


def test_a_session_that_ended_leads_back_to_where_it_was(writ, page):
    review = ask(writ, "refund", resource="order:65", args={"amount": 6})["review_id"]
    open_screen(page, writ, "review", review)
    page.see("order:65", "h1")
    page.driver.delete_all_cookies()
    page.see("Sign in", "h1")
    page.write("#key", writ.keys["carol"])
    page.click("form button", "Sign in")
    page.see("order:65", "h1")


def test_a_page_of_an_older_version_says_so(writ, page):
    open_screen(page, writ, "health")
    page.see("Platform", "h2")
    page.run("""const real = fetch;
        window.fetch = (url, options) => options && options.method === "HEAD" ? Promise.resolve(new Response("", {headers: {ETag: '"new"'}})) : real(url, options);
        document.dispatchEvent(new Event("visibilitychange"))""")
    page.see("this page is of an older version")
    page.click("button", "Reload")
    page.gone("older version")


def test_mixed_reviews_are_decided_from_the_screen_alone(writ, page):
    """A reader with rules of thumb: no large sums, no hidden characters, no check taken out. It prints what that took; WRIT_LONG=1: 20 of them."""
    kinds = [lambda n: ("refund", {"resource": f"order:9{n}", "args": {"amount": 10 + n}}, True),
             lambda n: ("refund", {"resource": f"order:9{n}", "args": {"amount": 5000 + n}}, False),
             lambda n: ("edit_file", {"args": {"path": f"a{n}.py", "old_string": "a = 1\nb\n", "new_string": "a = 2\nb\n"}}, True),
             lambda n: ("edit_file", {"args": {"path": f"b{n}.py", "old_string": "check()\nb\n", "new_string": "b\n"}}, False),
             lambda n: ("edit_file", {"args": {"path": f"c{n}.py", "text": f"line\u200b {n}\n" * 40}}, False)]
    wanted = {}
    for n in range(20 if harness.LONG else 5):
        action, members, good = kinds[n % 5](n)
        wanted[ask(writ, action, actor=f"bot_{n % 3}", **members)["review_id"]] = "approved" if good else "denied"
    begun, clicks, longer = time.monotonic(), 0, 0
    open_screen(page, writ, "inbox", "all")
    for review in wanted:
        page.click(f"[data-review={review}] a.title")
        page.find(".actions button")
        longer += page.run("return document.querySelector('.part:last-child').getBoundingClientRect().bottom > document.querySelector('.actions').getBoundingClientRect().top")
        page.scroll()
        text = page.text("main")
        amounts = [float(number) for number in re.findall(r"amount\n([0-9.]+)", text)]
        removed = page.all("del")
        good = "Look twice" not in text and all(amount < 1000 for amount in amounts) and not any("check" in line for line in removed)
        page.click(".actions button", "Approve" if good else "Deny")
        page.see("recorded", ".actions")
        page.click(".back a")
        clicks += 3
    print(f"{len(wanted)} reviews: {clicks} clicks, {time.monotonic() - begun:.1f} s, {longer} of them longer than a screen, nothing searched for elsewhere")
    assert {review: review_now(writ, review)["status"] for review in wanted} == wanted


# ---- everybody can use it ----


def screens(stack):
    """(name, steps, what is there when it is drawn)"""
    for action in ("get_order", "get_customer", "drop_order", "send_mail"):
        ask(stack, action, resource="order:4711")
    small = {"resource": "order:4700", "args": {"amount": 12, "currency": "EUR"}, "trace_id": "order-4700"}
    done = ask(stack, "refund", **small)["review_id"]
    vote(stack, "dan", done)
    redeem(stack, done, "refund", **small)
    vote(stack, "dan", ask(stack, "refund", resource="order:4701", args={"amount": 14, "currency": "EUR"})["review_id"], "deny")
    stack.wait_published()
    plain = ask(stack, "large_refund", resource="order:4711", args={"amount": 1250.5, "currency": "EUR", "reason": "Parcel lost"}, acting_for="zoe")["review_id"]
    edit = ask(stack, "edit_file", args={"path": "jobs/payroll.py", "old_string": "rate = 1.00\nround(rate)\n", "new_string": "rate = 1.07\nround(rate)\n",
                                         "message": "Approved by the CFO\u200b"}, context={"ticket": "HR-12"})["review_id"]
    return [("inbox", ("inbox", "all"), ".row"), ("review", ("review", plain), ".events"), ("review-edit", ("review", edit), ".odd"),
            ("decided", ("inbox", "decided"), ".row"), ("trace", ("trace", "order-4700"), ".step"), ("audit", ("audit",), ".event"),
            ("agents", ("agents",), "tbody tr"), ("agent", ("agents", "invoice_bot"), ".event"), ("policies", ("policies",), ".row"),
            ("policy", ("policies", "payments"), "#document"), ("health", ("health",), ".anchors li"), ("sessions", ("sessions",), ".row")]


def test_every_screen_is_accessible_on_a_phone_in_light_and_dark(writ, page):
    wrong = []
    for name, steps, there in screens(writ):
        for dark in (False, True):
            page.size(PHONE, dark)
            open_screen(page, writ, *steps)
            page.find(there)
            wide = page.run("return document.documentElement.scrollWidth")
            if wide > PHONE[0]:
                wrong.append((name, f"{wide} pixels wide"))
            wrong += [(name, "dark" if dark else "light", *one) for one in page.violations(["color-contrast"] if dark else None)]
            if PICTURES and name in ("inbox", "review"):
                page.screenshot(harness.TOP / f"docs/images/console-{name}-{'dark' if dark else 'phone'}.png")
        page.size(DESK)
        if PICTURES and name not in ("decided", "sessions"):
            page.screenshot(harness.TOP / f"docs/images/console-{name}.png")
    assert not wrong, json.dumps(wrong, indent=1)


def test_a_reviewer_without_other_roles_sees_no_other_screens(writ, page):
    page.click("button", "Sign out")
    page.see("Sign in", "h1")
    sign_in(page, writ, "erin")
    assert page.all(".bar nav a") == ["Inbox", "Health"]
    review = ask(writ, "refund", resource="order:70", args={"amount": 7})["review_id"]
    open_screen(page, writ, "review", review)
    page.see("Your key may not read the audit trail")
    assert page.violations() == []
    page.click("button", "Sign out")
    page.see("Sign in", "h1")
    open_screen(page, writ, "review", review)
    page.see("Sign in", "h1")


def test_a_key_of_every_tenant_names_one_and_sees_the_engines(writ, stranger):
    stranger.go(f"{address(writ)}/console/")
    stranger.write("#key", writ.keys["root"])
    stranger.click("form button", "Sign in")
    stranger.click(".bar a", "Health")
    stranger.see("current", "tbody")
    stranger.see("1 of 1 streams have their newest checkpoint there", ".anchors")
    stranger.see(": up to record ", ".anchors li")
    stranger.click(".bar a", "Policies")
    stranger.see("payments", ".rows")
    stranger.write(".tenant", "other\ue007")
    stranger.see("0 policies")
    stranger.click(".who a")
    stranger.see("You are root-owner", "h1")
    assert stranger.violations() == []
    stranger.click("button", "Sign out")
    stranger.see("Sign in", "h1")


def test_a_proxy_may_show_it_below_a_path(fresh, stranger):
    port = harness.free_port()
    url = f"http://127.0.0.1:{port}/teams/writ"
    stack = fresh(platform=["--public_url", url])
    stack.start()
    stack.policy("payments", POLICY)
    proxy = chromium.Proxy(port, stack.platform.port, "/teams/writ")
    try:
        stack.keys["carol"] = stack.key("carols-key", ROLES, owner="carol")
        review = ask(stack, "refund", resource="order:80", args={"amount": 8})["review_id"]
        stranger.go(url + "/")  # leads to the console
        sign_in(stranger, stack, "carol", url)
        stranger.click("a.title", "order:80")
        stranger.see("Your yes is the last one")
        stranger.click("button", "Approve")
        stranger.see("Waiting for the agent", ".state")
        with stack.at_engine("carol") as wire:
            assert wire.get(f"/v1/queue/{review}").json["status"] == "approved"
        stack.platform.kill()
        stranger.see("The platform cannot be reached", ".review")
        stack.platform.start()
        stranger.gone("The platform cannot be reached", ".review")
        stranger.see("Waiting for the agent", ".state")
    finally:
        proxy.close()

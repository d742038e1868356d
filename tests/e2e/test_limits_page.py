"""docs/reference/limits.md, held to the programs: at a row's value a request is not refused for it, one above it gets the row's code.

Rows whose bound needs more than one request (full tables, full disks) have tests of their own elsewhere.
"""

import json
import re
import subprocess

import pytest

import harness

UNITS = {"": 1, "bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "s": 1, "h": 3600, "d": 86400}
PAGE = (harness.TOP / "docs/reference/limits.md").read_text()


def row(name):
    """(value, status, code) of a row of the page."""
    cells = re.search(rf"^\| [^|]+ \| {re.escape(name)} \| ([^|]+) \| ([^|]+) \|", PAGE, re.M)
    assert cells, f"the page has no row \"{name}\""
    number, _, unit = cells[1].strip().partition(" ")
    status, code = re.match(r"(\d+) `(\w+)`", cells[2].strip()).groups()
    return int(number.replace(",", "")) * UNITS[unit], int(status), code


def decision(**members):
    return "/v1/agent/authorize", {"actor": "limits_bot", "action": "get_x", **members}


def nested(levels):
    return 0 if levels == 0 else {"a": nested(levels - 1)}


def rules(**rule):
    return "/api/v1/policies/limits", {"content": json.dumps({"rules": [{"id": "a", "actions": ["b"], **rule}]})}


def allow(**rule):
    return rules(agents=["b"], decision="allow", **rule)


ENGINE = {  # a row: the request that needs so much
    "levels of nesting in a JSON body": lambda n: decision(args=nested(n - 1)),
    "characters of a name: actor, user, action, part of a resource, tenant": lambda n: decision(action="a" * n),
    "characters of `tool` on the tool route, and of a safe tool": lambda n: ("/api/v1/authorize", {"tool": "a" * n, "actor": "limits_bot"}),
    "bytes of a trace id": lambda n: decision(trace_id="a" * n),
    "globs in a scope": lambda n: decision(scope=["a"] * n),
    "lifetime of a token": lambda n: ("/v1/tokens/mint", {"scope": "a", "actor": "limits_bot", "ttl_seconds": n}),
    "requests of a batch, AuthZEN evaluations of one request": lambda n: ("/v1/authorize/batch", {"requests": [decision()[1]] * n}),
    "uses of a token (`max_uses`)": lambda n: ("/v1/tokens/mint", {"scope": "a", "actor": "limits_bot", "max_uses": n}),
}
def cases(n):
    return "/api/v1/policies/limits", {"content": "rules:\n- {id: a, actions: [b], decision: deny}\ntests:\n" +
                                       "- {request: {actor: x, action: b}, expect: deny}\n" * n}


def text(lines):
    return "/api/v1/policies/limits", {"content": "rules:\n- {id: a, actions: [b], decision: deny}\n" + lines}


POLICIES = {
    "masks of one policy": lambda n: text("mask: [" + ", ".join(f"args.a{i}" for i in range(n)) + "]"),
    "tests of one policy": cases,
    "roles of one policy": lambda n: text("roles:\n" + "".join(f"  r{i}: [a]\n" for i in range(n))),
    "values of one name of claims": lambda n: text("roles:\n  r: {claims: {g: [" + ", ".join(f"v{i}" for i in range(n)) + "]}}\n"),
    "patterns of one selector": lambda n: rules(agents=[f"a{i}" for i in range(n)], decision="deny"),
    "channels that one rule notifies": lambda n: rules(decision="human_review", review={"notify": [f"c{i}" for i in range(n)]}),
    "regular expressions of one policy": lambda n: ("/api/v1/policies/limits", {"content": "rules:\n" + "".join(
        f"- {{id: r{i}, actions: [b], decision: deny, when: 'resource.id.matches(\"a\")'}}\n" for i in range(n))}),
    "bytes of a pattern": lambda n: rules(agents=["x" * n], decision="allow"),
    "stars of a pattern": lambda n: rules(agents=["a".join("*" * n)], decision="allow"),
    "characters of a condition": lambda n: allow(when="true" + " " * (n - 4)),
    "window": lambda n: allow(limit={"window": f"{n}s", "count": 1}),
    "`count`": lambda n: allow(limit={"window": "1d", "count": n}),
    "approvals of one rule": lambda n: rules(decision="human_review", review={"approvals": n}),
}


@pytest.mark.parametrize("name", ENGINE)
def test_one_more_than_a_limit_of_the_engine_is_refused_as_the_page_has_it(tenant, name):
    value, status, code = row(name)
    with tenant.stack.at_engine(tenant.agent) as wire:
        assert wire.post(*ENGINE[name](value)).status in (200, 201)
        reply = wire.post(*ENGINE[name](value + 1))
    assert (reply.status, reply.json["code"]) == (status, code), reply


@pytest.mark.parametrize("name", POLICIES)
def test_one_more_than_a_limit_of_policies_is_refused_as_the_page_has_it(tenant, name):
    value, status, code = row(name)
    with tenant.stack.at_platform(tenant.admin) as wire:
        assert wire.put(*POLICIES[name](value)).status in (200, 201)
        reply = wire.put(*POLICIES[name](value + 1))
    assert (reply.status, reply.json["code"]) == (status, code), reply


MANY = {
    "rules of one policy": lambda n: "rules:\n" + "".join(f"- {{id: r{i}, actions: [b], decision: deny}}\n" for i in range(n)),
    "patterns of one policy": lambda n: "rules:\n" + "".join(
        f"- {{id: r{i}, actions: [b], agents: [{'a,' * min(9000, n - 9000 * i - 1)}], decision: deny}}\n" for i in range(-(-n // 9001) + 1)),
}


@pytest.mark.parametrize("name", MANY)
def test_a_document_of_one_more_is_refused_as_the_page_has_it(tenant, name):
    value, status, code = row(name)
    reply = tenant.put("limits", MANY[name](value + 1))
    assert (reply.status, reply.json["code"]) == (status, code) and f"{value}" in reply.json["error"].replace(",", ""), reply


def test_bodies_heads_and_targets_have_the_sizes_that_the_page_has(tenant):
    body, status, code = row("body of a request")
    with tenant.stack.at_engine(tenant.agent) as wire:
        reply = wire.post(*decision(args={"x": "y" * body}))
        assert (reply.status, reply.json["code"]) == (status, code), reply
    target, status, code = row("path and query")
    with tenant.stack.at_engine(tenant.agent) as wire:
        reply = wire.get("/v1/queue/rev_" + "a" * target)
        assert (reply.status, reply.json["code"]) == (status, code), reply
    head, status, code = row("request line and headers together")
    with tenant.stack.at_engine(tenant.agent) as wire:
        reply = wire.get("/v1/queue/rev_a", headers={"X-Long": "a" * head})
        assert (reply.status, reply.json["code"]) == (status, code), reply


def test_pages_and_waits_are_as_long_as_the_page_has_it(tenant):
    items, status, code = row("items of a page (`limit`)")
    seconds, wait_status, wait_code = row("time of one wait for a review")
    reviewer = tenant.key("reviewers", ["reviewer"])
    with tenant.stack.at_engine(reviewer) as wire:
        assert wire.get(f"/v1/queue?limit={items}").status == 200
        reply = wire.get(f"/v1/queue?limit={items + 1}")
        assert (reply.status, reply.json["code"]) == (status, code), reply
        reply = wire.get(f"/v1/queue/rev_x/wait?timeout_ms={seconds * 1000 + 1}")
        assert (reply.status, reply.json["code"]) == (wait_status, wait_code), reply


def test_bodies_of_documents_and_records_have_the_sizes_that_the_page_has(tenant):
    """Refused by the head alone."""
    for line, credential in (("PUT /api/v1/policies/{name}", tenant.admin), ("POST /api/v1/policies:apply", tenant.admin),
                             ("POST /api/v1/audit/ingest", tenant.stack.keys["engine"])):
        size, status, code = row(f"body of `{line}`")
        with tenant.stack.at_platform() as wire:
            wire.open()
            kind = "application/x-ndjson" if "ingest" in line else "application/json"
            wire.send(f"{line.replace('{name}', 'x')} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {credential}\r\n"
                      f"Content-Type: {kind}\r\nContent-Length: {size + 1}\r\n\r\n".encode())
            reply = wire.read_reply()
        assert (reply.status, reply.json["code"]) == (status, code), reply


def test_a_rotation_overlaps_for_as_long_as_the_page_has_it(tenant):
    seconds, status, code = row("overlap of a rotation")
    with tenant.stack.at_platform("root") as wire:
        made = wire.post("/api/v1/keys", {"name": "rotated", "owner": "o", "tenant": tenant.name, "roles": ["agent"]}).json
        reply = wire.post(f"/api/v1/keys/{made['id']}/rotate", {"overlap_seconds": seconds + 1})
        assert (reply.status, reply.json["code"]) == (status, code), reply
        assert wire.post(f"/api/v1/keys/{made['id']}/rotate", {"overlap_seconds": seconds}).status == 201


def test_notes_and_pages_of_reviews_are_as_long_as_the_page_has_it(tenant):
    tenant.policy("rules:\n- {id: a, actions: [refund], decision: human_review}\n")
    characters, status, code = row("characters of a note")
    items = int(re.search(r"items of a page without `limit` \| (\d+)", PAGE)[1])
    reviewer = tenant.key("reviewers", ["reviewer"])
    with tenant.stack.at_engine(tenant.agent) as wire:
        ids = [wire.post(*decision(action="refund", args={"n": n})).json["review_id"] for n in range(items + 1)]
    with tenant.stack.at_engine(reviewer) as wire:
        page = wire.get("/v1/queue").json
        assert len(page["items"]) == items and page["next_cursor"]
        reply = wire.post(f"/v1/queue/{ids[0]}/approve", {"note": "é" * (characters + 1)})
        assert (reply.status, reply.json["code"]) == (status, code), reply
        assert wire.post(f"/v1/queue/{ids[0]}/approve", {"note": "é" * characters}).status == 200


@pytest.mark.parametrize("option, value", [("policy.steps", 999), ("policy.steps", 2000001), ("reactors", 65),
                                           ("quota.tenant.requests", 10 ** 12 + 1), ("quota.key.cpu", "1000000001s")])
def test_an_engine_does_not_start_beyond_the_bounds_of_an_option(tmp_path, option, value):
    """The rows `steps that policy.steps gives them at most`, `reactors of one engine`, and `the largest of these` rates."""
    names = {"policy.steps": "steps that `policy.steps` gives them at most", "reactors": "reactors of one engine"}
    most = re.search(rf"\| {re.escape(names.get(option, 'the largest of these'))} \| ([\d,]+) \|", PAGE)[1].replace(",", "")
    done = subprocess.run([harness.BIN / "writ-engine", "--data", tmp_path / "data", f"--{option}", str(value)],
                          capture_output=True, text=True, timeout=harness.PATIENCE)
    assert done.returncode == 2 and f'{option} (flag): "{value}" is not valid' in done.stderr, done
    assert option.endswith("cpu") or most in done.stderr, done
    assert not (tmp_path / "data").exists()


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A store that takes 1/6250 of its bounds: 8 keys of a tenant, 16 of all, and their bytes."""
    with harness.Stack(tmp_path_factory.mktemp("small"), platform_environment={"WRIT_BUG": "small_store"}) as stack:
        yield stack


def test_the_store_takes_as_much_as_the_page_has(small):
    """The row's answer, at the bound of the planted small store."""
    def key(tenant, **more):
        return wire.post("/api/v1/keys", {"name": "n", "owner": "o", "tenant": tenant, "roles": ["agent"], **more})

    def put(tenant, size):
        return wire.put(f"/api/v1/policies/p?tenant_id={tenant}", {"content": document + " " * (size - len(document))})

    def refused(reply, name, of, what):
        value, status, code = row(name)
        assert (reply.status, reply.json["code"]) == (status, code), reply
        assert re.search(rf"{of} may have {value // 6250} {what}", reply.json["error"]), reply

    document = "rules:\n- {id: a, actions: [b], decision: deny}\n"
    with small.at_platform("root") as wire:
        refused(key("large", actors=[f"{n:02}" + "x" * 100 for n in range(50)]), "stored keys of one tenant", "a tenant", "bytes of keys")
        for _ in range(8):
            assert key("first").status == 201
        refused(key("first"), "keys of one tenant", "a tenant", "keys")
        assert key("second").status == key("third").status == 201
        refused(key("fourth", actors=[f"{n:02}" + "x" * 60 for n in range(55)]), "stored keys of all tenants", "all tenants together", "bytes of keys")
        replies = [key(f"tenant-{n}") for n in range(8)]
        refused(next(reply for reply in replies if reply.status != 201), "keys of all tenants", "all tenants together", "keys")
        refused(put("a", 2000), "active policies of one tenant together", "the policies in force of a tenant", "bytes")
        replies = [put(f"tenant-{n}", 1600) for n in range(8)]
        refused(next(reply for reply in replies if reply.status not in (200, 201)), "active policies of all tenants together",
                "the policies in force of all tenants", "bytes")

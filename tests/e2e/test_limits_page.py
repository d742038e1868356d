"""docs/reference/limits.md, held to the programs: at a row's value a request is not refused for it, one above it gets the row's code.

Rows whose bound needs more than one request (full tables, full disks) have tests of their own elsewhere.
"""

import json
import re

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
    "uses of a token (`max_uses`)": lambda n: ("/v1/tokens/mint", {"scope": "a", "actor": "limits_bot", "max_uses": n}),
}
POLICIES = {
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

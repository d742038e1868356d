"""The same steps against the engine and against the test double: both have to answer alike.

    double.py URL       the keys are in WRIT_KEY and REVIEWER_KEY; prints {"engine": [...], "double": [...]}
"""

import asyncio
import json
import os
import pathlib
import sys

import httpx

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from writ_client.testing import Engine  # noqa: E402

OPTIONAL = {"policy_name", "policy_version", "input_salt", "confidence_used", "would_have"}  # the double has no policies


def shape(answer):
    """What has to be alike: status, verdict and state, and which members there are. Ids, texts and names of rules differ."""
    members = answer.json()
    rule = members.get("rule", "")
    return {"status": answer.status_code, "members": sorted(set(members) - OPTIONAL), "verdict": members.get("decision"), "code": members.get("code"),
            "state": members.get("status"), "review_status": members.get("review_status"), "replayed": members.get("replayed"),
            "rule": rule if rule.startswith(("review:b", "review:r", "review:d", "review:p", "default:")) and members.get("decision") == "deny" else rule.split(":")[0],
            "safe": [members.get("safe_tool"), members.get("safe_args")], "echo": answer.headers.get("x-request-id")}


async def steps(url, key, resolve):
    headers = {"Authorization": f"Bearer {key}", "X-Request-ID": "steps"}
    found = []
    async with httpx.AsyncClient(base_url=url, headers=headers, trust_env=False) as http:
        async def ask(path, body, key=None):
            answer = await http.post(path, json=body, headers={"Idempotency-Key": key} if key else {})
            found.append(shape(answer))
            return answer.json()

        async def decide(action, args, key=None):
            return await ask("/v1/agent/authorize", {"action": action, "actor": "agent-1", "args": args}, key)

        async def redeem(review, args, key=None):
            return await ask(f"/v1/queue/{review}/redeem", {"action": "issue_refund", "actor": "agent-1", "args": args}, key)

        async def wait(review, milliseconds=0):
            found.append(shape(await http.get(f"/v1/queue/{review}/wait?timeout_ms={milliseconds}")))

        for action, args in (("get_balance", {}), ("GET_balance", {}), ("drop_account", {}), ("write_orders_prod", {"order": "1"}), ("dance", {})):
            await decide(action, args)
        await decide("DROP_account", {})
        await decide("get_balance", {"n": 1}, "key-1")
        await decide("get_balance", {"n": 1}, "key-1")
        review = (await decide("issue_refund", {"amount": 1}))["review_id"]
        assert (await decide("issue_refund", {"amount": 1}))["review_id"] == review
        await redeem(review, {"amount": 1})
        await asyncio.gather(wait(review, 20000), resolve(review, "approve"))
        assert (await decide("issue_refund", {"amount": 1}))["review_id"] == review
        await redeem(review, {"amount": 2})
        await redeem(review, {"amount": 1}, "key-2")
        await redeem(review, {"amount": 1}, "key-2")
        await redeem(review, {"amount": 1})
        other = (await decide("issue_refund", {"amount": 1}))["review_id"]
        assert other != review
        await resolve(other, "deny")
        await wait(other)
        await redeem(other, {"amount": 1})
        found.append(shape(await http.get("/v1/queue/rev_01KAG5W2VBF0J5V9S2H8K6E4WQ/wait?timeout_ms=0")))
        found.append(shape(await http.post("/v1/agent/authorize", content="{", headers={"Content-Type": "application/json"})))
        found.append(shape(await http.post("/v1/agent/authorize", json={}, headers={"Authorization": "Bearer wk_other"})))
    return found


async def main(url):
    async def person(review, verdict):
        async with httpx.AsyncClient(trust_env=False) as http:
            answer = await http.post(f"{url}/v1/queue/{review}/{verdict}", json={"resolved_by": "rita"}, headers={"Authorization": f"Bearer {os.environ['REVIEWER_KEY']}"})
            assert answer.status_code == 200, answer.text

    real = await steps(url, os.environ["WRIT_KEY"], person)
    with Engine() as engine:
        engine.allow("get_*")
        engine.review("issue_refund")
        engine.deny("drop_*")
        engine.compute("write_*_prod", "write_file", {"path": "/sandbox/orders", "order": "1"})

        async def resolve(review, verdict):
            (engine.approve if verdict == "approve" else engine.refuse)(review)

        double = await steps(engine.url, engine.KEY, resolve)
    print(json.dumps({"engine": real, "double": double}))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))

"""Many agents in one process, each with calls that have to end right however often the engine goes away.

    crowd.py URL AGENTS        the key is in WRIT_KEY

Prints {"done": N} after each call, and at the end {"calls": [...]}: what each call ran, and by which decision.
"""

import asyncio
import json
import logging
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from writ_client import AsyncClient, Denied, NoDecision, Refused  # noqa: E402

CALLS = [("get_balance", {}), ("issue_refund", {"approve": True}), ("drop_account", {}), ("write_orders_prod", {}), ("issue_refund", {"approve": False})]
TOOLS = ("get_balance", "issue_refund", "drop_account", "write_orders_prod", "write_file")


async def one_call(client, agent, tool, args, report):
    """One call of an agent, from its first request to its end."""
    record = {"agent": agent, "tool": tool, "args": args, "ran": [], "interrupted": 0}
    review = None
    while True:
        try:
            call = await client.permit(tool, args, review_id=review, tools=TOOLS, actor=agent)
        except Denied as denied:
            record["outcome"] = denied.rule
            break
        except Refused as refused:  # away, or a person has not decided yet
            if isinstance(refused, NoDecision) and not refused.outage:
                record["outcome"] = f"fault: {refused}"
                break
            record["interrupted"] += 1
            review = refused.review_id or review
            await asyncio.sleep(0.05)
            continue
        record["ran"].append({"tool": call.tool, "args": call.args, "request_id": call.decision.request_id})
        record["outcome"] = "ran"
        break
    report(record)


async def main(url, agents):
    logging.getLogger("writ_client").setLevel(logging.ERROR)
    records = []

    def report(record):
        records.append(record)
        print(json.dumps({"done": len(records)}), flush=True)

    async with AsyncClient(url, deadline=5, wait=120, cooldown=0.1) as client:
        async def agent(number):
            for turn, (tool, args) in enumerate(CALLS):
                await one_call(client, f"agent-{number}", tool, {**args, "order": f"{number}-{turn}"}, report)

        await asyncio.gather(*(agent(number) for number in range(agents)))
    print(json.dumps({"calls": records}), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))

"""OpenAI Agents SDK: an agent whose tool calls are decided by writ.

    openai_agent.py PROMPT [SECONDS]        waits so long for a person, an hour by default
"""

import asyncio
import sys

from agents import Agent, RunConfig, Runner, function_tool, set_tracing_disabled
from agents.items import ToolCallOutputItem

from tools import ALL
from writ_client import Client  # writ
from writ_client.openai_agents import gated  # writ


async def main(prompt: str, wait: float) -> None:
    set_tracing_disabled(True)
    client = Client(wait=wait, actor="openai_agent")  # writ
    agent = Agent(name="refunds", model="gpt-5", tools=gated([function_tool(one) for one in ALL], client))  # writ
    result = await Runner.run(agent, prompt, run_config=RunConfig(group_id="refunds-7"))
    for item in result.new_items:
        if isinstance(item, ToolCallOutputItem):
            print(f"tool: {item.output}")
    print(result.final_output)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 3600))

"""An agent that calls the tools of an MCP server: mcp_agent.py PROMPT PYTHON SERVER [ARGUMENT ...]"""

import asyncio
import os
import sys

from agents import Agent, Runner, set_tracing_disabled
from agents.items import ToolCallOutputItem
from agents.mcp import MCPServerStdio


async def main(prompt, command, *arguments):
    set_tracing_disabled(True)
    async with MCPServerStdio(params={"command": command, "args": list(arguments), "env": dict(os.environ)}, client_session_timeout_seconds=120) as server:
        result = await Runner.run(Agent(name="refunds", model="gpt-5", mcp_servers=[server]), prompt)
    for item in result.new_items:
        if isinstance(item, ToolCallOutputItem):
            print(f"tool: {item.output}")
    print(result.final_output)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

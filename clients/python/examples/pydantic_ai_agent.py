"""Pydantic AI: an agent whose tool calls are decided by writ.

    pydantic_ai_agent.py PROMPT [SECONDS]   waits so long for a person, an hour by default
"""

import asyncio
import sys

from pydantic_ai import Agent
from pydantic_ai.messages import ModelRequest, ToolReturnPart
from pydantic_ai.models.openai import OpenAIChatModel

from tools import ALL
from writ_client import Client  # writ
from writ_client.pydantic_ai import Writ  # writ


async def main(prompt: str, wait: float) -> None:
    gate = Writ(Client(wait=wait, actor="pydantic_ai_agent"))  # writ
    agent = Agent(OpenAIChatModel("gpt-5"), tools=ALL, capabilities=[gate])  # writ
    result = await agent.run(prompt)
    for message in result.all_messages():
        for part in message.parts if isinstance(message, ModelRequest) else []:
            if isinstance(part, ToolReturnPart):
                print(f"tool: {part.content}")
    print(result.output)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 3600))

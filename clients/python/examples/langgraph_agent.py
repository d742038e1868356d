"""LangGraph: an agent whose tool calls are decided by writ.

    langgraph_agent.py PROMPT [SECONDS]     waits so long for a person, an hour by default
"""

import sys

from langchain.agents import create_agent
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

from tools import ALL
from writ_client import Client  # writ
from writ_client.langchain import WritMiddleware  # writ


def main(prompt: str, wait: float) -> None:
    gate = WritMiddleware(Client(wait=wait, actor="langgraph_agent"))  # writ
    agent = create_agent(ChatOpenAI(model="gpt-5"), [tool(one) for one in ALL], middleware=[gate])  # writ
    result = agent.invoke({"messages": [HumanMessage(prompt)]}, {"configurable": {"thread_id": "refunds-7"}})
    for message in result["messages"]:
        print(f"{message.type}: {message.content}")


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 3600)

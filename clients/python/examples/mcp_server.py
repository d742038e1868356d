"""MCP SDK: a server whose tool calls are decided by writ, whatever agent is its client.

    mcp_server.py [SECONDS]                 waits so long for a person, 20 seconds by default
"""

import sys

from mcp.server.mcpserver import MCPServer

from tools import ALL
from writ_client import Client  # writ
from writ_client.mcp import writ  # writ


def main(wait: float) -> None:
    gate = writ(Client(wait=wait, actor="mcp_server"))  # writ
    server = MCPServer("refunds", middleware=[gate])  # writ
    for one in ALL:
        server.tool()(one)
    server.run()


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 20)

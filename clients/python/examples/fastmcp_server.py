"""FastMCP: a server whose tool calls are decided by writ, whatever agent is its client.

    fastmcp_server.py [SECONDS]             waits so long for a person, 20 seconds by default
"""

import sys

from fastmcp import FastMCP

from tools import ALL
from writ_client import Client  # writ
from writ_client.fastmcp import WritMiddleware  # writ


def main(wait: float) -> None:
    gate = WritMiddleware(Client(wait=wait, actor="fastmcp_server"))  # writ
    server = FastMCP("refunds", middleware=[gate])  # writ
    for one in ALL:
        server.tool(one)
    server.run(show_banner=False)


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 20)

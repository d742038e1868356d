"""Without a framework: a decorated function. WRIT_ENGINE_URL and WRIT_KEY name the engine and the key.

    plain_agent.py AMOUNT
"""

import sys

from writ_client import Refused, gate  # writ


@gate("issue_refund")  # writ
def issue_refund(amount: int) -> str:
    return f"refunded {amount}"


if __name__ == "__main__":
    try:
        print(issue_refund(int(sys.argv[1])))
    except Refused as refused:
        sys.exit(f"not run: {refused}")

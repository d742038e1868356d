"""Gates the tool calls of an AI agent with writ.

    from writ_client import gate

    @gate("issue_refund")
    def issue_refund(amount: int) -> str: ...

Anything but a well-formed allow or compute of the engine runs nothing: see errors.
"""

__version__ = "0.1.0"

from .answers import Decision
from .client import AsyncClient, Call, Client, gate, guard, request
from .errors import Denied, NoDecision, Refused, ReviewPending

__all__ = ["AsyncClient", "Call", "Client", "Decision", "Denied", "NoDecision", "Refused", "ReviewPending", "gate", "guard", "request"]

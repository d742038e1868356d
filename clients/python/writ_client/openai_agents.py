"""OpenAI Agents SDK: Agent(tools=gated([issue_refund, write_file])).

Each tool of the list asks writ before it runs. A safe call may use the tools of the list. A call that may not run returns
the reason to the model.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, List, Optional, Sequence

from agents import FunctionTool
from agents.tool_context import ToolContext

from .client import Client, Ids, default_client
from .errors import Refused
from .texts import for_model
from .values import decode, encode


def _ids(context: ToolContext[Any]) -> Ids:
    return {"tool_call_id": context.tool_call_id, "conversation_id": context.run_config.group_id if context.run_config is not None else None}


def gated(tools: Sequence[FunctionTool], client: Optional[Client] = None, **members: Any) -> List[Any]:
    """These tools behind the gate. `members` are what each request has (actor, acting_for, ...)."""
    inner: Dict[str, FunctionTool] = {tool.name: tool for tool in tools}
    asked = client or default_client()

    def behind(tool: FunctionTool) -> FunctionTool:
        async def invoke(context: ToolContext[Any], arguments: str) -> Any:
            try:
                args = decode((arguments or "{}").encode())
                call = await asked.aio.permit(tool.name, args, tools=inner, ids=_ids(context), **members)
            except Refused as error:
                return for_model(error)
            except (TypeError, ValueError) as error:
                return f"Not run: the arguments are not a JSON object that writ can decide about: {error}"
            return await inner[call.tool].on_invoke_tool(context, encode(call.args).decode())

        return dataclasses.replace(tool, on_invoke_tool=invoke)

    return [behind(tool) for tool in tools]

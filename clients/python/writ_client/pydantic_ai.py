"""Pydantic AI: Agent(model, tools=[...], capabilities=[Writ()]).

A call that may not run returns the reason to the model. What runs is validated from the copy that was sent.
"""

from __future__ import annotations

from typing import Any, Optional

from pydantic_ai import RunContext
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.capabilities.abstract import WrapToolExecuteHandler
from pydantic_ai.messages import ToolCallPart
from pydantic_ai.tools import ToolDefinition

from .client import Client, default_client
from .errors import NoDecision, Refused
from .texts import for_model
from .values import encode


class Writ(AbstractCapability[Any]):
    """Asks writ about each tool call. `members` are what each request has (actor, acting_for, ...)."""

    def __init__(self, client: Optional[Client] = None, **members: Any) -> None:
        self.client, self.members = client or default_client(), members

    async def wrap_tool_execute(self, ctx: RunContext[Any], *, call: ToolCallPart, tool_def: ToolDefinition, args: Any,
                                handler: WrapToolExecuteHandler) -> Any:
        manager = ctx.tool_manager
        tools = (manager.tools if manager is not None else None) or {}
        try:
            if manager is None or call.tool_name not in tools:
                raise NoDecision(f"{call.tool_name} cannot be found, to validate what is permitted.")
            ids = {"tool_call_id": call.tool_call_id, "conversation_id": ctx.conversation_id}
            permitted = await self.client.aio.permit(call.tool_name, call.args_as_dict(), tools=tools, ids=ids, **self.members)
        except Refused as error:
            return for_model(error)
        tool = tools[permitted.tool]
        valid: Any = tool.args_validator.validate_json(encode(permitted.args), context=ctx.validation_context)
        if permitted.tool == call.tool_name:
            return await handler(valid)
        return await manager.toolset.call_tool(permitted.tool, valid, ctx, tool)

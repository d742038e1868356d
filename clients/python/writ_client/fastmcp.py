"""FastMCP: FastMCP("tools", middleware=[WritMiddleware()]).

A call that may not run is an error of the tool, with the reason. Add it last: a middleware behind it could change what
was decided.
"""

from __future__ import annotations

from typing import Any, Optional

from fastmcp.exceptions import ToolError
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from fastmcp.tools import ToolResult
from mcp.types import CallToolRequestParams

from .client import AnyTool, Client, default_client
from .errors import Refused
from .texts import for_model


class WritMiddleware(Middleware):
    """Asks writ about each tool call. `members` are what each request has (actor, acting_for, ...)."""

    def __init__(self, client: Optional[Client] = None, **members: Any) -> None:
        self.client, self.members = client or default_client(), members

    async def on_call_tool(self, context: MiddlewareContext[CallToolRequestParams], call_next: CallNext[CallToolRequestParams, ToolResult]) -> ToolResult:
        request = context.fastmcp_context.request_context if context.fastmcp_context is not None else None
        ids = {"tool_call_id": request.request_id if request is not None else None}
        try:
            call = await self.client.aio.permit(context.message.name, context.message.arguments or {}, tools=AnyTool(), ids=ids, **self.members)
        except Refused as error:
            raise ToolError(for_model(error)) from error
        return await call_next(context.copy(message=context.message.model_copy(update={"name": call.tool, "arguments": call.args})))

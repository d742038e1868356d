"""MCP SDK: MCPServer("tools", middleware=[writ()]), or Server.middleware.append(writ()).

A call that may not run is a result with `isError` and the reason.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Optional

from mcp.server.context import CallNext, HandlerResult, ServerMiddleware, ServerRequestContext
from mcp.types import CallToolResult, TextContent

from .client import AnyTool, Client, default_client
from .errors import Refused
from .texts import for_model

Context = ServerRequestContext[Any, Any]


def writ(client: Optional[Client] = None, **members: Any) -> ServerMiddleware[Any]:
    """A middleware that asks writ about each tool call. `members` are what each request has (actor, acting_for, ...)."""
    asked = client or default_client()

    def refused(text: str) -> CallToolResult:
        return CallToolResult(content=[TextContent(type="text", text=text)], is_error=True)

    async def middleware(ctx: Context, call_next: CallNext) -> HandlerResult:
        if ctx.method != "tools/call":
            return await call_next(ctx)
        params = ctx.params or {}
        name, arguments = params.get("name"), params.get("arguments") or {}
        if not isinstance(name, str):
            return refused("Not run: the call names no tool.")
        try:
            call = await asked.aio.permit(name, arguments, tools=AnyTool(), ids={"tool_call_id": ctx.request_id}, **members)
        except Refused as error:
            return refused(for_model(error))
        except TypeError as error:
            return refused(f"Not run: {error}")
        return await call_next(dataclasses.replace(ctx, params={**params, "name": call.tool, "arguments": call.args}))

    return middleware

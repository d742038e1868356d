"""LangChain and LangGraph: create_agent(model, tools, middleware=[WritMiddleware()]).

Put it last: a middleware behind it could change what was decided. A call that may not run becomes a tool message with the
reason. While a person decides, the call waits (`wait` of the client). After that the model is asked to call again, and
the same call continues with the same review.
"""

from __future__ import annotations

from typing import Any, Awaitable, Callable, Dict, Optional, Union

from langchain.agents.middleware import AgentMiddleware
from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.messages import ToolMessage
from langgraph.types import Command

from .client import Call, Client, Ids, default_client
from .errors import Refused
from .texts import for_model

Result = Union[ToolMessage, Command[Any]]


class WritMiddleware(AgentMiddleware[Any, Any, Any]):
    """Asks writ about each tool call. `members` are what each request has (actor, acting_for, ...)."""

    def __init__(self, client: Optional[Client] = None, **members: Any) -> None:
        super().__init__()
        self.client, self.members = client or default_client(), members

    @staticmethod
    def _tools(request: ToolCallRequest) -> Dict[str, Any]:
        found = {tool.name: tool for tool in request.runtime.tools} if request.runtime is not None else {}
        return {**found, **({request.tool.name: request.tool} if request.tool is not None else {})}

    @staticmethod
    def _ids(request: ToolCallRequest) -> Ids:
        config = request.runtime.config if request.runtime is not None else {}
        return {"tool_call_id": request.tool_call["id"], "conversation_id": config.get("configurable", {}).get("thread_id")}

    @staticmethod
    def _refused(request: ToolCallRequest, error: Refused) -> ToolMessage:
        return ToolMessage(content=for_model(error), name=request.tool_call["name"], tool_call_id=request.tool_call["id"], status="error")

    @staticmethod
    def _permitted(request: ToolCallRequest, call: Call, tools: Dict[str, Any]) -> ToolCallRequest:
        changed: Any = {**request.tool_call, "name": call.tool, "args": call.args}
        return request.override(tool_call=changed, tool=tools[call.tool]) if call.tool in tools else request.override(tool_call=changed)

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Result]) -> Result:
        tools = self._tools(request)
        try:
            call = self.client.permit(request.tool_call["name"], request.tool_call["args"], tools=tools, ids=self._ids(request), **self.members)
        except Refused as error:
            return self._refused(request, error)
        return handler(self._permitted(request, call, tools))

    async def awrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Result]]) -> Result:
        tools = self._tools(request)
        try:
            call = await self.client.aio.permit(request.tool_call["name"], request.tool_call["args"], tools=tools, ids=self._ids(request), **self.members)
        except Refused as error:
            return self._refused(request, error)
        return await handler(self._permitted(request, call, tools))

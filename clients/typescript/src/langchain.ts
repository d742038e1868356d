/* langchain.ts - the tools of a LangChain agent behind the gate.
 *
 *     createAgent({ model, tools, middleware: [createMiddleware({ name: "writ", wrapToolCall: gateToolCalls(writ, ToolMessage, tools) })] })
 *
 * LangChain's own functions are arguments, so that this package needs no dependency. */

import type { Call, Client, Members } from "./client.js";
import { forModel } from "./text.js";

interface ToolCallRequest {
  readonly toolCall: { readonly name: string; readonly args: object; readonly id?: string | undefined };
  readonly tool?: unknown;
  readonly runtime?: { readonly configurable?: { readonly thread_id?: string | undefined } | undefined } | undefined;
}

interface NamedTool {
  readonly name?: unknown;
}

type MessageClass<M> = new (fields: { content: string; tool_call_id: string; name: string; status: "error" }) => M;

/** For `wrapToolCall`. `tools` are those of the agent: the safe call of a compute may name any of them. */
export function gateToolCalls<M>(client: Client, ToolMessage: MessageClass<M>, tools: readonly NamedTool[] = [], members: Members = {}) {
  const own = new Map<string, NamedTool>(tools.map((tool) => [String(tool.name), tool]));
  return async <Q extends ToolCallRequest, A>(request: Q, handler: (request: Q) => A | PromiseLike<A>): Promise<A | M> => {
    const { name, args, id } = request.toolCall;
    let call: Call;
    try {
      const ids = { toolCallId: id, conversationId: request.runtime?.configurable?.thread_id };
      call = await client.permit(name, args, { ...members, ids, tools: own });
    } catch (error) {
      return new ToolMessage({ content: forModel(error), tool_call_id: id ?? "", name, status: "error" });
    }
    const tool = call.tool === name ? request.tool : own.get(call.tool);
    return handler({ ...request, tool, toolCall: { ...request.toolCall, name: call.tool, args: call.args } });
  };
}

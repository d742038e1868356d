/* langchain.ts - the tools of a LangChain agent behind the gate.
 *
 *     createAgent({ model, tools, middleware: [createMiddleware({ name: "writ", wrapToolCall: gateToolCalls(writ, ToolMessage, tools) })] })
 *
 * LangChain's own functions are arguments, so that this package needs no dependency. */
import { forModel } from "./text.js";
/** For `wrapToolCall`. `tools` are those of the agent: the safe call of a compute may name any of them. */
export function gateToolCalls(client, ToolMessage, tools = [], members = {}) {
    const own = new Map(tools.map((tool) => [String(tool.name), tool]));
    return async (request, handler) => {
        const { name, args, id } = request.toolCall;
        let call;
        try {
            const ids = { toolCallId: id, conversationId: request.runtime?.configurable?.thread_id };
            call = await client.permit(name, args, { ...members, ids, tools: own });
        }
        catch (error) {
            return new ToolMessage({ content: forModel(error), tool_call_id: id ?? "", name, status: "error" });
        }
        const tool = call.tool === name ? request.tool : own.get(call.tool);
        return handler({ ...request, tool, toolCall: { ...request.toolCall, name: call.tool, args: call.args } });
    };
}

/* openai-agents.ts - the function tools of OpenAI's Agents SDK behind the gate.
 *
 *     new Agent({ name, tools: gateTools(writ, [refund, lookup]) })
 *
 * A tool that throws ends the whole run there, so a refusal is returned to the model as the tool's output. */
import { isObject, read } from "./json.js";
import { forModel } from "./text.js";
/** The same tools. Each runs what writ permits, which for a compute may be another one of them. */
export function gateTools(client, tools, members = {}) {
    const own = new Map(tools.map((tool) => [tool.name, tool]));
    return tools.map((tool) => {
        if (tool.type !== "function" || typeof tool.invoke !== "function")
            throw new TypeError(`${tool.name} is no function tool, so the gate cannot hold it`);
        const invoke = async (context, input, details) => {
            let call;
            try {
                const options = { ...members, ids: { toolCallId: details?.toolCall?.callId }, signal: details?.signal, tools: own };
                call = await client.permit(tool.name, argumentsOf(input), options);
            }
            catch (error) {
                return forModel(error);
            }
            return own.get(call.tool)?.invoke?.(context, JSON.stringify(call.args), details);
        };
        return { ...tool, invoke };
    });
}
function argumentsOf(input) {
    const args = read(input === "" ? "{}" : input);
    if (!isObject(args))
        throw new TypeError("the arguments are no object");
    return args;
}

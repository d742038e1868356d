/* vercel.ts - the tools of Vercel's AI SDK, versions 6 and 7, behind the gate.
 *
 *     generateText({ model, prompt, tools: gateTools(writ, tools) })
 *
 * The gate is in `execute`, because that function alone decides what runs: it gets the permitted arguments, or it throws, and the
 * model reads why. `toolApproval` of version 7 cannot replace arguments, and runs the tool after a word that it does not know. */
import { Refused } from "./errors.js";
/** The same tools. Each runs what writ permits, which for a compute may be another one of them. */
export function gateTools(client, tools, members = {}) {
    const own = new Map(Object.entries(tools));
    for (const [name, tool] of own) {
        if (typeof tool.execute !== "function")
            throw new TypeError(`${name} has no execute: this program does not run it, so the gate cannot hold it`);
    }
    const gated = [...own].map(([name, tool]) => {
        const execute = async (input, options = {}) => {
            const call = await client.permit(name, input, { ...members, ids: { toolCallId: options.toolCallId }, signal: options.abortSignal, tools: own });
            return last(own.get(call.tool)?.execute?.(call.args, options));
        };
        return [name, { ...tool, execute }];
    });
    return Object.fromEntries(gated);
}
/** The last output of a tool that has several. */
async function last(output) {
    if (typeof output !== "object" || output === null || !(Symbol.asyncIterator in output))
        return output;
    let latest;
    for await (const one of output)
        latest = one;
    return latest;
}
/** For `toolApproval` of version 7: tools that other programs run, which gateTools cannot hold. Only an allow approves, since
 * arguments cannot be replaced here. */
export function toolApproval(client, members = {}) {
    return async ({ toolCall }) => {
        try {
            const { toolName, toolCallId, input } = toolCall;
            const { decision } = await client.permit(toolName, input, { ...members, ids: { toolCallId } });
            if (decision === null || decision.word === "allow")
                return { type: "approved", reason: decision?.reason ?? "" };
            return { type: "denied", reason: "Only another call is permitted in its place." };
        }
        catch (error) {
            return { type: "denied", reason: error instanceof Refused ? error.message : "There is no decision." };
        }
    };
}

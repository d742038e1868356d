import type { Client, Members } from "./client.js";
interface ToolCallRequest {
    readonly toolCall: {
        readonly name: string;
        readonly args: object;
        readonly id?: string | undefined;
    };
    readonly tool?: unknown;
    readonly runtime?: {
        readonly configurable?: {
            readonly thread_id?: string | undefined;
        } | undefined;
    } | undefined;
}
interface NamedTool {
    readonly name?: unknown;
}
type MessageClass<M> = new (fields: {
    content: string;
    tool_call_id: string;
    name: string;
    status: "error";
}) => M;
/** For `wrapToolCall`. `tools` are those of the agent: the safe call of a compute may name any of them. */
export declare function gateToolCalls<M>(client: Client, ToolMessage: MessageClass<M>, tools?: readonly NamedTool[], members?: Members): <Q extends ToolCallRequest, A>(request: Q, handler: (request: Q) => A | PromiseLike<A>) => Promise<A | M>;
export {};

import type { Client, Members } from "./client.js";
/** The same tools. Each runs what writ permits, which for a compute may be another one of them. */
export declare function gateTools<T extends {
    readonly [name: string]: object;
}>(client: Client, tools: T, members?: Members): T;
export interface Approval {
    readonly type: "approved" | "denied";
    readonly reason: string;
}
/** For `toolApproval` of version 7: tools that other programs run, which gateTools cannot hold. Only an allow approves, since
 * arguments cannot be replaced here. */
export declare function toolApproval(client: Client, members?: Members): (asked: {
    readonly toolCall: unknown;
}) => Promise<Approval>;

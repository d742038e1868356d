import type { Client, Members } from "./client.js";
/** The same tools. Each runs what writ permits, which for a compute may be another one of them. */
export declare function gateTools<T extends {
    readonly type: string;
    readonly name: string;
}>(client: Client, tools: readonly T[], members?: Members): T[];

import type { Client, Members } from "./client.js";
interface Server {
    registerTool(name: string, config: any, callback: any): any;
}
/** The same server. Each tool that is registered from now on runs what writ permits. */
export declare function gateServer<S extends Server>(client: Client, server: S, members?: Members): S;
export {};

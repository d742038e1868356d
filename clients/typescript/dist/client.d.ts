import type { Decision } from "./answer.js";
import { type JsonObject } from "./json.js";
import { type TokenOptions } from "./tokens.js";
/** Members of a request, beside the tool and its arguments. */
export interface Members {
    readonly actor?: string | undefined;
    /** The person for whom the agent acts. */
    readonly actingFor?: string | undefined;
    /** How sure the agent is, from 0 to 1. */
    readonly confidence?: number | undefined;
    readonly context?: string | object | undefined;
    readonly conversationId?: string | undefined;
    /** "type:id", or an object with type and id. */
    readonly resource?: string | object | undefined;
    readonly scope?: string | readonly string[] | undefined;
    readonly tenantId?: string | undefined;
    readonly toolCallId?: string | undefined;
    /** A name for this request in the audit trail. */
    readonly traceId?: string | undefined;
}
export interface ClientOptions {
    /** Where the engine listens. By default WRIT_ENGINE_URL, else http://127.0.0.1:8080. */
    readonly url?: string | undefined;
    /** The API key. By default WRIT_KEY. A function may return a token that another program has minted. */
    readonly key?: string | (() => string | Promise<string>) | undefined;
    /** The total time of one decision or redemption, with all retries. By default 10 s. */
    readonly deadlineMs?: number | undefined;
    /** The total time of waiting for people. By default an hour. */
    readonly waitMs?: number | undefined;
    /** How long nothing is asked after an outage. By default 5 s. */
    readonly cooldownMs?: number | undefined;
    /** "open" runs calls without a decision while the engine is away. */
    readonly onError?: "closed" | "open" | undefined;
    /** Ask with tokens, which the client mints with its key and renews. */
    readonly token?: TokenOptions | undefined;
    /** A PEM file of the authorities to trust instead of the system's. */
    readonly caFile?: string | undefined;
    /** What each request has. */
    readonly members?: Members | undefined;
    /** Called before the wait for a person, for example to store the id of the review. */
    readonly onReview?: ((review: PendingReview) => void | Promise<void>) | undefined;
    readonly log?: ((line: LogLine) => void) | undefined;
}
export interface LogLine {
    readonly level: "info" | "warn";
    readonly message: string;
    readonly [member: string]: unknown;
}
export interface PendingReview {
    readonly reviewId: string;
    readonly reason: string;
    readonly tool: string;
    readonly args: JsonObject;
}
export interface CallOptions extends Members {
    /** Continue with the review of an earlier request. The arguments have to be the same: an approval holds for no others. */
    readonly reviewId?: string | undefined;
    /** 0 does not wait: a human_review throws ReviewPending. */
    readonly waitMs?: number | undefined;
    readonly signal?: AbortSignal | undefined;
    /** The tools that a safe call may use. By default client.tools. */
    readonly tools?: {
        has(name: string): boolean;
    } | undefined;
    /** The framework's ids of the call: sent where no member gives them, cut to what the engine takes. */
    readonly ids?: Ids | undefined;
}
export interface Ids {
    readonly toolCallId?: string | number | undefined;
    readonly conversationId?: string | number | undefined;
}
/** What may run now, once: this tool with these arguments, which are frozen at every level. */
export interface Call {
    readonly tool: string;
    readonly args: JsonObject;
    /** null: the engine is away, and onError is "open". */
    readonly decision: Decision | null;
}
export type Tool = (args: any) => unknown;
export declare class Client {
    #private;
    /** The registered tools: run() and safe calls use them. */
    readonly tools: Map<string, Tool>;
    constructor(options?: ClientOptions);
    /** Ends the idle connections. */
    close(): void;
    /** The engine's decision. It runs nothing, waits for no person, and is good once: use permit() or run(). */
    decide(tool: string, args: object, options?: CallOptions): Promise<Decision>;
    /** The call that may run now, once. Throws Denied, ReviewPending or NoDecision in every other case. */
    permit(tool: string, args: object, options?: CallOptions): Promise<Call>;
    /** Asks, waits if people decide, and runs the registered tool that may run. */
    run(tool: string, args: object, options?: CallOptions): Promise<unknown>;
    /** A function that runs the tool with what was permitted, or throws. It also registers the tool, so that a safe call may use it. */
    gate<A extends object, R>(name: string, tool: (args: A) => R, members?: Members | ((args: A) => Members)): (args: A, options?: CallOptions) => Promise<Awaited<R>>;
    /** Several tools behind the gate. */
    guard<T extends {
        readonly [name: string]: Tool;
    }>(tools: T, members?: Members): Guarded<T>;
}
export type Guarded<T extends {
    readonly [name: string]: Tool;
}> = {
    readonly [K in keyof T]: (args: Parameters<T[K]>[0], options?: CallOptions) => Promise<Awaited<ReturnType<T[K]>>>;
};
/** The client that WRIT_ENGINE_URL and WRIT_KEY describe, made at its first use. */
export declare function defaultClient(): Client;
/** As Client.gate, with the default client. */
export declare function gate<A extends object, R>(name: string, tool: (args: A) => R, members?: Members | ((args: A) => Members)): (args: A, options?: CallOptions) => Promise<Awaited<R>>;
/** As Client.guard, with the default client. */
export declare function guard<T extends {
    readonly [name: string]: Tool;
}>(tools: T, members?: Members): Guarded<T>;

import * as http from "node:http";
export interface Sent {
    readonly method: "GET" | "POST";
    readonly path: string;
    readonly headers: Readonly<Record<string, string>>;
    readonly body?: string;
    /** By performance.now(). */
    readonly deadline: number;
    readonly signal?: AbortSignal | undefined;
}
export interface Reply {
    readonly status: number;
    readonly headers: http.IncomingHttpHeaders;
    readonly text: string;
}
/** connect: no connection. tls: no TLS, or not the server's certificate. lost: the connection ended before the answer did. late: the
 * deadline. large, text: the answer itself. aborted: the caller. */
export type Fault = "connect" | "tls" | "lost" | "late" | "large" | "text" | "aborted";
export declare class WireError extends Error {
    readonly name = "WireError";
    readonly fault: Fault;
    constructor(fault: Fault, message: string, cause?: unknown);
}
export declare class Wire {
    #private;
    constructor(url: string, caFile: string | undefined);
    close(): void;
    exchange(sent: Sent): Promise<Reply>;
}

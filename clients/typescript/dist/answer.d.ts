import { NoDecision } from "./errors.js";
import { type Json, type JsonObject } from "./json.js";
import type { Reply } from "./wire.js";
export type Verdict = "allow" | "compute" | "human_review" | "deny";
export type ReviewStatus = "pending" | "approved" | "denied" | "expired" | "cancelled" | "lapsed" | "redeemed";
/** A well-formed decision. It permits something only if its word is allow or compute. */
export interface Decision {
    readonly word: Verdict;
    /** Why, for a person. */
    readonly reason: string;
    /** Which rule decided, such as allow:refunds. */
    readonly rule: string;
    readonly traceId: string;
    readonly requestId: string;
    readonly reviewId: string | null;
    /** The same request was reviewed before, and approved. */
    readonly approved: boolean;
    readonly safeTool: string | null;
    readonly safeArgs: JsonObject | null;
    /** All members, as the engine wrote them. */
    readonly members: JsonObject;
}
export interface Minted {
    readonly token: string;
    /** Seconds since 1970, by the engine's clock. */
    readonly expiresAt: number;
}
/** One answer, read to its end. */
export interface Answer {
    readonly reply: Reply;
    /** The X-Request-ID of the request. */
    readonly requestId: string;
    /** An earlier attempt of the same call can have reached the engine. */
    readonly repeated: boolean;
}
export declare function readDecision(answer: Answer, asked: JsonObject): Decision;
/** It becomes part of a path, so nothing else may pass. */
export declare function reviewIdOf(value: Json | undefined): string;
export declare function readStatus(answer: Answer, reviewId: string): ReviewStatus;
export declare function readMinted(answer: Answer): Minted;
/** What an answer means that has not the status that was wanted. */
export declare function errorOf(reply: Reply): NoDecision;

import { Client, type ClientOptions } from "./client.js";
import { type JsonObject } from "./json.js";
import type { ReviewStatus, Verdict } from "./answer.js";
export interface TestOutcome {
    readonly decision: Verdict;
    readonly reason?: string;
    readonly safeTool?: string;
    readonly safeArgs?: object;
}
export type TestRule = Verdict | TestOutcome | ((request: JsonObject) => Verdict | TestOutcome);
export declare class TestReview {
    #private;
    readonly id: string;
    readonly request: JsonObject;
    readonly binding: string;
    readonly members: JsonObject;
    status: ReviewStatus;
    resolvedBy: string | null;
    readonly ended: Promise<void>;
    constructor(id: string, request: JsonObject, members: JsonObject);
    approve(person?: string): void;
    deny(person?: string): void;
    expire(): void;
}
export declare class TestEngine {
    #private;
    readonly rules: Record<string, TestRule>;
    readonly key = "test-key";
    /** The requests that were decided, in their order. */
    readonly asked: JsonObject[];
    readonly reviews: TestReview[];
    /** Which answers are lost, by the path of the request. What they would report has happened. */
    loses: ((path: string) => boolean) | null;
    /** How many tokens were minted. */
    minted: number;
    onReview: ((review: TestReview) => void) | null;
    private constructor();
    static start(rules?: {
        readonly [action: string]: TestRule;
    }): Promise<TestEngine>;
    get url(): string;
    client(options?: ClientOptions): Client;
    /** The engine is away until up(). */
    down(): Promise<void>;
    up(): Promise<void>;
    /** Tokens are unknown from now on, as after a loss of the engine's state. */
    forgetTokens(): void;
}

export declare class Refused extends Error {
    readonly name: string;
}
export declare class Denied extends Refused {
    readonly name = "Denied";
    /** Why, for a person; it may be shown to the model. */
    readonly reason: string;
    readonly rule: string;
    constructor(reason: string, rule?: string);
}
export declare class ReviewPending extends Refused {
    readonly name = "ReviewPending";
    readonly reviewId: string;
    constructor(reviewId: string, cause?: unknown);
}
export interface NoDecisionFacts {
    readonly outage?: boolean;
    readonly status?: number | null;
    readonly code?: string | null;
    readonly reviewId?: string | null;
    readonly cause?: unknown;
}
export declare class NoDecision extends Refused {
    readonly name = "NoDecision";
    /** The engine is away: it could not be reached, did not answer in time, lost its answer, or answered 5xx. */
    readonly outage: boolean;
    /** The status of the answer, if there was one. */
    readonly status: number | null;
    /** The code of the engine's error (schemas/errors.md), if there was one. */
    readonly code: string | null;
    /** The review to resume, with the same client: its redemption may be in doubt. */
    readonly reviewId: string | null;
    constructor(message: string, facts?: NoDecisionFacts);
    /** The same error, about a review. */
    of(reviewId: string): NoDecision;
}

/* errors.ts - why a call did not run. Each of these means that nothing was run.
 *
 *   Refused
 *   ├── Denied           the engine or a person has refused
 *   ├── ReviewPending    a person has not decided yet: resume with its reviewId
 *   └── NoDecision       there is no decision that may be obeyed: the engine is away, or its answer is not well-formed */
export class Refused extends Error {
    name = "Refused";
}
export class Denied extends Refused {
    name = "Denied";
    /** Why, for a person; it may be shown to the model. */
    reason;
    rule;
    constructor(reason, rule = "") {
        super(reason);
        this.reason = reason;
        this.rule = rule;
    }
}
export class ReviewPending extends Refused {
    name = "ReviewPending";
    reviewId;
    constructor(reviewId, cause) {
        super(`A person has not decided yet: review ${reviewId}.`, cause === undefined ? undefined : { cause });
        this.reviewId = reviewId;
    }
}
export class NoDecision extends Refused {
    name = "NoDecision";
    /** The engine is away: it could not be reached, did not answer in time, lost its answer, or answered 5xx. */
    outage;
    /** The status of the answer, if there was one. */
    status;
    /** The code of the engine's error (schemas/errors.md), if there was one. */
    code;
    /** The review to resume, with the same client: its redemption may be in doubt. */
    reviewId;
    constructor(message, facts = {}) {
        super(message, facts.cause === undefined ? undefined : { cause: facts.cause });
        this.outage = facts.outage ?? false;
        this.status = facts.status ?? null;
        this.code = facts.code ?? null;
        this.reviewId = facts.reviewId ?? null;
    }
    /** The same error, about a review. */
    of(reviewId) {
        return new NoDecision(this.message, { outage: this.outage, status: this.status, code: this.code, reviewId, cause: this.cause });
    }
}

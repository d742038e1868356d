/* errors.ts - why a call did not run. Each of these means that nothing was run.
 *
 *   Refused
 *   ├── Denied           the engine or a person has refused
 *   ├── ReviewPending    a person has not decided yet: resume with its reviewId
 *   └── NoDecision       there is no decision that may be obeyed: the engine is away, or its answer is not well-formed */

export class Refused extends Error {
  override readonly name: string = "Refused";
}

export class Denied extends Refused {
  override readonly name = "Denied";
  /** Why, for a person; it may be shown to the model. */
  readonly reason: string;
  readonly rule: string;

  constructor(reason: string, rule = "") {
    super(reason);
    this.reason = reason;
    this.rule = rule;
  }
}

export class ReviewPending extends Refused {
  override readonly name = "ReviewPending";
  readonly reviewId: string;

  constructor(reviewId: string, cause?: unknown) {
    super(`A person has not decided yet: review ${reviewId}.`, cause === undefined ? undefined : { cause });
    this.reviewId = reviewId;
  }
}

export interface NoDecisionFacts {
  readonly outage?: boolean;
  readonly status?: number | null;
  readonly code?: string | null;
  readonly reviewId?: string | null;
  readonly cause?: unknown;
}

export class NoDecision extends Refused {
  override readonly name = "NoDecision";
  /** The engine is away: it could not be reached, did not answer in time, lost its answer, or answered 5xx. */
  readonly outage: boolean;
  /** The status of the answer, if there was one. */
  readonly status: number | null;
  /** The code of the engine's error (schemas/errors.md), if there was one. */
  readonly code: string | null;
  /** The review to resume, with the same client: its redemption may be in doubt. */
  readonly reviewId: string | null;

  constructor(message: string, facts: NoDecisionFacts = {}) {
    super(message, facts.cause === undefined ? undefined : { cause: facts.cause });
    this.outage = facts.outage ?? false;
    this.status = facts.status ?? null;
    this.code = facts.code ?? null;
    this.reviewId = facts.reviewId ?? null;
  }

  /** The same error, about a review. */
  of(reviewId: string): NoDecision {
    return new NoDecision(this.message, { outage: this.outage, status: this.status, code: this.code, reviewId, cause: this.cause });
  }
}

/* doubts.ts - redemptions whose answer never came.
 *
 * Such a redemption may have been made. Only this client knows that it has run nothing yet, so it may ask for the answer again, with the
 * same Idempotency-Key. It then also sends the same ids of the tool call: a model that calls again has others, and to the engine another
 * body is no repeat. Two calls never share a key: the second one would run the replayed answer of the first. */
import { NoDecision } from "./errors.js";
const DOUBTS_MAX = 10_000;
export class Doubts {
    #doubts = new Map();
    #busy = new Set();
    has(reviewId) {
        return this.#doubts.has(reviewId);
    }
    /** The key and ids of the redemption, `ids` if it is new; `isKnown`: an earlier attempt had no answer. */
    take(reviewId, ids) {
        if (this.#busy.has(reviewId))
            throw new NoDecision("Another call of this client redeems the review.", { reviewId });
        this.#busy.add(reviewId);
        const known = this.#doubts.get(reviewId);
        return { ...(known ?? { key: crypto.randomUUID(), ids }), isKnown: known !== undefined };
    }
    /** After the attempt: its key and ids, if there was no answer. */
    put(reviewId, doubt) {
        this.#busy.delete(reviewId);
        this.#doubts.delete(reviewId);
        if (doubt === null)
            return;
        this.#doubts.set(reviewId, doubt);
        for (const oldest of this.#doubts.keys()) {
            if (this.#doubts.size <= DOUBTS_MAX)
                break;
            this.#doubts.delete(oldest);
        }
    }
}

/* breaker.ts - an outage costs one time-out, and not one for each call.
 *
 *   CLOSED --the engine is away--> OPEN --cooldownMs--> one call tries: CLOSED or OPEN again
 *
 * While it is open, every other call fails at once. It never answers in the engine's place. */

import { NoDecision } from "./errors.js";

export class Breaker {
  readonly #ms: number;
  #openUntil = 0;
  #isOpen = false;
  #isTrying = false;
  #why = "";

  constructor(ms: number) {
    this.#ms = ms;
  }

  async call<T>(ask: () => Promise<T>): Promise<T> {
    if (this.#isOpen && (this.#isTrying || performance.now() < this.#openUntil)) {
      throw new NoDecision(`The engine was away a moment ago, and is asked again after a pause. ${this.#why}`, { outage: true });
    }
    const tries = this.#isOpen;
    this.#isTrying ||= tries;
    try {
      const answer = await ask();
      this.#isOpen = false;
      return answer;
    } catch (error) {
      if (error instanceof NoDecision && error.outage) this.#open(error.message);
      else if (tries) this.#isOpen = false;
      throw error;
    } finally {
      if (tries) this.#isTrying = false;
    }
  }

  #open(why: string): void {
    this.#isOpen = this.#ms > 0;
    this.#openUntil = performance.now() + this.#ms;
    this.#why = why;
  }
}

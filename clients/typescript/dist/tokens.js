/* tokens.ts - the token that the client mints with its key and renews by itself.
 *
 * It is renewed when four fifths of its life or all of its uses are over, or when the engine does not take it any more.
 * Calls that need it at the same time wait for one mint. */
import { copy } from "./json.js";
/** A revoked token is not replaced: an administrator has ended it. */
export const RENEWABLE = new Set(["credential_expired", "token_unknown"]);
export class Tokens {
    #body;
    #maxUses;
    #mint;
    #held = null;
    #minting = null;
    #usesLeft = 0;
    constructor(options, mint) {
        const body = {
            scope: options.scope,
            ttl_seconds: options.ttlSeconds,
            max_uses: options.maxUses,
            actor: options.actor,
            acting_for: options.actingFor,
            tenant_id: options.tenantId,
        };
        if (options.scope === undefined || options.scope.length === 0)
            throw new TypeError("token.scope: globs of actions are required");
        this.#body = copy(body, "token");
        this.#maxUses = options.maxUses ?? Infinity;
        this.#mint = mint;
    }
    /** The token; `spends`: for a decision, which may cost one of its uses. */
    async take(spends, deadline) {
        let held = this.#held;
        if (held === null || Date.now() >= held.renewAt || (spends && this.#usesLeft <= 0)) {
            this.#minting ??= this.#renewed(deadline).finally(() => (this.#minting = null));
            held = await this.#minting;
        }
        if (spends)
            this.#usesLeft--;
        return held.token;
    }
    /** The engine does not take this token any more. */
    drop(token) {
        if (this.#held?.token === token)
            this.#held = null;
    }
    async #renewed(deadline) {
        const now = Date.now();
        const minted = await this.#mint(this.#body, deadline);
        this.#usesLeft = this.#maxUses;
        this.#held = { token: minted.token, renewAt: now + (minted.expiresAt * 1000 - now) * 0.8 };
        return this.#held;
    }
}

import { type JsonObject } from "./json.js";
import type { Minted } from "./answer.js";
/** A revoked token is not replaced: an administrator has ended it. */
export declare const RENEWABLE: ReadonlySet<string>;
/** The body of the mint. */
export interface TokenOptions {
    /** Globs of actions, with blanks between them. */
    readonly scope: string | readonly string[];
    readonly ttlSeconds?: number | undefined;
    readonly maxUses?: number | undefined;
    readonly actor?: string | undefined;
    readonly actingFor?: string | undefined;
    readonly tenantId?: string | undefined;
}
export declare class Tokens {
    #private;
    constructor(options: TokenOptions, mint: (body: JsonObject, deadline: number) => Promise<Minted>);
    /** The token; `spends`: for a decision, which may cost one of its uses. */
    take(spends: boolean, deadline: number): Promise<string>;
    /** The engine does not take this token any more. */
    drop(token: string): void;
}

import type { JsonObject } from "./json.js";
interface Doubt {
    readonly key: string;
    readonly ids: JsonObject;
}
export declare class Doubts {
    #private;
    has(reviewId: string): boolean;
    /** The key and ids of the redemption, `ids` if it is new; `isKnown`: an earlier attempt had no answer. */
    take(reviewId: string, ids: JsonObject): Doubt & {
        readonly isKnown: boolean;
    };
    /** After the attempt: its key and ids, if there was no answer. */
    put(reviewId: string, doubt: Doubt | null): void;
}
export {};

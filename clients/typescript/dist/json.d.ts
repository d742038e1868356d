export type Json = null | boolean | number | string | readonly Json[] | {
    readonly [name: string]: Json;
};
export type JsonObject = {
    readonly [name: string]: Json;
};
export declare class JsonError extends Error {
    readonly name = "JsonError";
}
/** Reads one JSON text (RFC 8259). Equal members, inexact integers and lone surrogates are errors. The result is frozen. */
export declare function read(text: string): Json;
/** A frozen copy of a value, as the engine reads it. Members that are undefined are left out, as in JSON.stringify. */
export declare function copy(value: unknown, where: string): Json;
export declare function isObject(value: Json | undefined): value is JsonObject;

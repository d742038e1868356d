/* json.ts - JSON that means the same at both ends.
 *
 * JSON.parse takes the last of two equal members, and rounds integers that a double cannot hold. An answer that
 * another reader would understand differently permits nothing, so read() refuses both. JSON.stringify writes NaN
 * as null and a Map as {}. A tool must not run with other values than those that were sent, so copy() refuses
 * what JSON cannot hold, and returns what the engine is going to read. */

export type Json = null | boolean | number | string | readonly Json[] | { readonly [name: string]: Json };
export type JsonObject = { readonly [name: string]: Json };

const DEPTH_MAX = 64;

export class JsonError extends Error {
  override readonly name = "JsonError";
}

const SPACE = /[ \t\n\r]*/y;
const NUMBER = /-?(?:0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?/y;
const STRING = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y;
const WORD = /true|false|null/y;
const WORDS: { readonly [word: string]: boolean | null } = { true: true, false: false, null: null };

/** Reads one JSON text (RFC 8259). Equal members, inexact integers and lone surrogates are errors. The result is frozen. */
export function read(text: string): Json {
  let at = 0;

  function fail(what: string): never {
    throw new JsonError(`${what} at character ${at + 1}`);
  }
  function match(pattern: RegExp): RegExpExecArray | null {
    pattern.lastIndex = at;
    const found = pattern.exec(text);
    if (found !== null) at = pattern.lastIndex;
    return found;
  }
  function take(character: string): boolean {
    match(SPACE);
    if (text[at] !== character) return false;
    at++;
    return true;
  }
  function string(): string {
    match(SPACE);
    const found = match(STRING) ?? fail("a string is expected");
    const value = JSON.parse(found[0]) as string;
    return isWellFormed(value) ? value : fail("half of a surrogate pair");
  }
  function number(found: RegExpExecArray): number {
    const value = Number(found[0]);
    if (!Number.isFinite(value)) fail(`${found[0]} is beyond the numbers of JavaScript`);
    if (Number.isInteger(value) && !Number.isSafeInteger(value)) fail(`${found[0]} is not exact in JavaScript`);
    return value;
  }
  function object(depth: number): JsonObject {
    const members: Record<string, Json> = {};
    if (take("}")) return Object.freeze(members);
    do {
      const name = string();
      if (Object.hasOwn(members, name)) fail(`the member ${JSON.stringify(name)} is there twice`);
      if (!take(":")) fail("a colon is expected");
      set(members, name, value(depth + 1));
    } while (take(","));
    if (!take("}")) fail("a comma or the end of the object is expected");
    return Object.freeze(members);
  }
  function array(depth: number): readonly Json[] {
    const items: Json[] = [];
    if (take("]")) return Object.freeze(items);
    do items.push(value(depth + 1));
    while (take(","));
    if (!take("]")) fail("a comma or the end of the array is expected");
    return Object.freeze(items);
  }
  function value(depth: number): Json {
    if (depth > DEPTH_MAX) fail(`more than ${DEPTH_MAX} levels`);
    match(SPACE);
    if (text[at] === '"') return string();
    if (take("{")) return object(depth);
    if (take("[")) return array(depth);
    const word = match(WORD);
    if (word !== null) return WORDS[word[0]] as boolean | null;
    return number(match(NUMBER) ?? fail("a value is expected"));
  }

  const whole = value(1);
  match(SPACE);
  return at === text.length ? whole : fail("more than one value");
}

/** A frozen copy of a value, as the engine reads it. Members that are undefined are left out, as in JSON.stringify. */
export function copy(value: unknown, where: string): Json {
  return copied(value, where, 1);
}

function copied(value: unknown, where: string, depth: number): Json {
  if (depth > DEPTH_MAX) throw new TypeError(`${where}: more than ${DEPTH_MAX} levels, or a circle`);
  switch (typeof value) {
    case "boolean":
      return value;
    case "string":
      if (!isWellFormed(value)) throw new TypeError(`${where}: half of a surrogate pair is not text`);
      return value;
    case "number":
      if (!Number.isFinite(value)) throw new TypeError(`${where}: ${value} is not a JSON number`);
      if (Number.isInteger(value) && !Number.isSafeInteger(value)) throw new TypeError(`${where}: ${value} is not exact; send it as a string`);
      return Object.is(value, -0) ? 0 : value;
    case "object":
      break;
    default:
      throw new TypeError(`${where}: JSON has no ${typeof value}`);
  }
  if (value === null) return null;
  if (Array.isArray(value)) {
    const items = Array.from(value as unknown[], (item, n) => copied(item, `${where}[${n}]`, depth + 1));
    return Object.freeze(items);
  }
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) {
    throw new TypeError(`${where}: a ${value.constructor.name} is not JSON; convert it first`);
  }
  const members: Record<string, Json> = {};
  for (const [name, member] of Object.entries(value)) {
    if (!isWellFormed(name)) throw new TypeError(`${where}: half of a surrogate pair is not text`);
    if (member !== undefined) set(members, name, copied(member, `${where}.${name}`, depth + 1));
  }
  return Object.freeze(members);
}

export function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Also for a member named __proto__. */
function set(members: Record<string, Json>, name: string, value: Json): void {
  Object.defineProperty(members, name, { value, enumerable: true, writable: true, configurable: true });
}

function isWellFormed(text: string): boolean {
  return (text as string & { isWellFormed(): boolean }).isWellFormed();
}

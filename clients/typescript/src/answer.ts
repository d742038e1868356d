/* answer.ts - what the engine answers, and whether it can be trusted.
 *
 * A decision permits a call only if all of it fits: the word, the flags beside the word, the mode, the ids of this
 * very request. Everything else is a NoDecision, which runs nothing. */

import { NoDecision } from "./errors.js";
import { isObject, read, type Json, type JsonObject } from "./json.js";
import type { Reply } from "./wire.js";

export type Verdict = "allow" | "compute" | "human_review" | "deny";
export type ReviewStatus = "pending" | "approved" | "denied" | "expired" | "cancelled" | "lapsed" | "redeemed";

/** A well-formed decision. It permits something only if its word is allow or compute. */
export interface Decision {
  readonly word: Verdict;
  /** Why, for a person. */
  readonly reason: string;
  /** Which rule decided, such as allow:refunds. */
  readonly rule: string;
  readonly traceId: string;
  readonly requestId: string;
  readonly reviewId: string | null;
  /** The same request was reviewed before, and approved. */
  readonly approved: boolean;
  readonly safeTool: string | null;
  readonly safeArgs: JsonObject | null;
  /** All members, as the engine wrote them. */
  readonly members: JsonObject;
}

export interface Minted {
  readonly token: string;
  /** Seconds since 1970, by the engine's clock. */
  readonly expiresAt: number;
}

/** One answer, read to its end. */
export interface Answer {
  readonly reply: Reply;
  /** The X-Request-ID of the request. */
  readonly requestId: string;
  /** An earlier attempt of the same call can have reached the engine. */
  readonly repeated: boolean;
}

const VERDICTS: ReadonlySet<string> = new Set(["allow", "compute", "human_review", "deny"]);
const STATUSES: ReadonlySet<string> = new Set(["pending", "approved", "denied", "expired", "cancelled", "lapsed", "redeemed"]);
const REVIEW_ID = /^rev_[0-9A-HJKMNP-TV-Z]{26}$/;

function malformed(what: string): never {
  throw new NoDecision(`The answer is not well-formed: ${what}.`);
}

function shown(value: Json | undefined): string {
  return value === undefined ? "missing" : JSON.stringify(value).slice(0, 64);
}

/** The members of an answer, each checked when it is read. */
class Members {
  readonly all: JsonObject;

  constructor({ reply, requestId }: Answer) {
    const type = reply.headers["content-type"] ?? "";
    if (!/^application\/json\s*(;.*)?$/i.test(type)) malformed(`its Content-Type is ${shown(type)}, not application/json`);
    if (reply.headers["content-encoding"] !== undefined) malformed("it has a Content-Encoding");
    if (reply.headers["x-request-id"] !== requestId) malformed("it belongs to another request");
    this.all = wholeOf(reply);
  }

  get(name: string): Json | undefined {
    return Object.hasOwn(this.all, name) ? this.all[name] : undefined;
  }
  text(name: string): string {
    const value = this.get(name);
    return typeof value === "string" && value !== "" ? value : malformed(`${name} is ${shown(value)}, not a text`);
  }
  object(name: string): JsonObject {
    const value = this.get(name);
    return isObject(value) ? value : malformed(`${name} is ${shown(value)}, not an object`);
  }
  is(name: string, expected: Json): void {
    const value = this.get(name);
    if (value !== expected) malformed(`${name} is ${shown(value)}, not ${shown(expected)}`);
  }
  /** One of these words, or what an absent one means. */
  word(name: string, words: ReadonlySet<string>, absent?: string): string {
    const value = this.get(name) ?? absent;
    return typeof value === "string" && words.has(value) ? value : malformed(`${name} is ${shown(value)}`);
  }
}

function wholeOf(reply: Reply): JsonObject {
  let whole: Json;
  try {
    whole = read(reply.text);
  } catch (cause) {
    throw new NoDecision(`The answer is not well-formed: ${(cause as Error).message}.`, { cause });
  }
  return isObject(whole) ? whole : malformed("it is no JSON object");
}

export function readDecision(answer: Answer, asked: JsonObject): Decision {
  const m = new Members(answer);
  const word = m.word("decision", VERDICTS) as Verdict;
  m.is("allowed", word === "allow");
  m.is("compute", word === "compute");
  m.is("requires_human_review", word === "human_review");
  m.is("mode", "live");
  const traceId = m.text("trace_id");
  if (asked["trace_id"] !== undefined) m.is("trace_id", asked["trace_id"]);
  if (word === "allow" || word === "compute") mayRun(m, answer);
  return Object.freeze({
    word,
    reason: textOr(m.get("reason")),
    rule: textOr(m.get("rule")),
    traceId,
    requestId: m.text("request_id"),
    reviewId: word === "human_review" ? reviewIdOf(m.get("review_id")) : null,
    approved: word === "human_review" && m.word("review_status", STATUSES_ASKED, "pending") === "approved",
    safeTool: word === "compute" ? m.text("safe_tool") : null,
    safeArgs: word === "compute" ? m.object("safe_args") : null,
    members: m.all,
  });
}

const STATUSES_ASKED: ReadonlySet<string> = new Set(["pending", "approved"]);

/** A replayed answer was given before. If this call has not asked before, another one got it, and may have run it. */
function mayRun(m: Members, answer: Answer): void {
  const replayed = m.get("replayed");
  if (replayed === undefined) return;
  m.is("replayed", true);
  if (!answer.repeated) throw new NoDecision("This call was answered before, and may have run.");
}

function textOr(value: Json | undefined): string {
  return typeof value === "string" ? value : "";
}

/** It becomes part of a path, so nothing else may pass. */
export function reviewIdOf(value: Json | undefined): string {
  return typeof value === "string" && REVIEW_ID.test(value) ? value : malformed(`${shown(value)} is no id of a review`);
}

export function readStatus(answer: Answer, reviewId: string): ReviewStatus {
  const m = new Members(answer);
  m.is("id", reviewId);
  return m.word("status", STATUSES) as ReviewStatus;
}

export function readMinted(answer: Answer): Minted {
  const m = new Members(answer);
  const token = m.text("token");
  const expiresAt = m.get("expires_at");
  if (!/^[!-~]{1,4096}$/.test(token) || typeof expiresAt !== "number") malformed("a minted token has no token or no expires_at");
  m.is("token_type", "Bearer");
  return { token, expiresAt };
}

/** What an answer means that has not the status that was wanted. */
export function errorOf(reply: Reply): NoDecision {
  let code = "";
  let error = "";
  try {
    const whole = wholeOf(reply);
    code = textOr(whole["code"]).slice(0, 64);
    error = textOr(whole["error"]).slice(0, 500);
  } catch {
    // It is not the engine's.
  }
  return new NoDecision(`The engine answered ${reply.status} ${code}: ${error}`.replace(/[: ]+$/, ""), { outage: reply.status >= 500, status: reply.status, code });
}

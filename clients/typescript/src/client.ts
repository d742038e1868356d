/* client.ts - decides, waits and redeems.
 *
 *   decide ── deny ────────────────────────────▶ Denied
 *     │  └─── allow, compute ──────────────────▶ Call: run exactly this
 *     └ human_review ─▶ wait ─ approved ─▶ redeem ─▶ a decision, as above
 *                         └ anything else ─────▶ Denied, ReviewPending
 *
 * Every way that is not drawn here ends in NoDecision. What may run leaves permit() as a Call, and nothing else does. There is no
 * cache of answers. */

import process from "node:process";
import { errorOf, readDecision, readMinted, readStatus, reviewIdOf } from "./answer.js";
import type { Answer, Decision, Minted, ReviewStatus } from "./answer.js";
import { Breaker } from "./breaker.js";
import { Doubts } from "./doubts.js";
import { Denied, NoDecision, ReviewPending } from "./errors.js";
import { copy, isObject, type JsonObject } from "./json.js";
import { backoff, pause, within } from "./time.js";
import { RENEWABLE, Tokens, type TokenOptions } from "./tokens.js";
import { VERSION } from "./version.js";
import { Wire, WireError } from "./wire.js";

/** Members of a request, beside the tool and its arguments. */
export interface Members {
  readonly actor?: string | undefined;
  /** The person for whom the agent acts. */
  readonly actingFor?: string | undefined;
  /** How sure the agent is, from 0 to 1. */
  readonly confidence?: number | undefined;
  readonly context?: string | object | undefined;
  readonly conversationId?: string | undefined;
  /** "type:id", or an object with type and id. */
  readonly resource?: string | object | undefined;
  readonly scope?: string | readonly string[] | undefined;
  readonly tenantId?: string | undefined;
  readonly toolCallId?: string | undefined;
  /** A name for this request in the audit trail. */
  readonly traceId?: string | undefined;
}

const MEMBERS: { readonly [name in keyof Members]-?: string } = {
  actor: "actor",
  actingFor: "acting_for",
  confidence: "confidence",
  context: "context",
  conversationId: "conversation_id",
  resource: "resource",
  scope: "scope",
  tenantId: "tenant_id",
  toolCallId: "tool_call_id",
  traceId: "trace_id",
};

export interface ClientOptions {
  /** Where the engine listens. By default WRIT_ENGINE_URL, else http://127.0.0.1:8080. */
  readonly url?: string | undefined;
  /** The API key. By default WRIT_KEY. A function may return a token that another program has minted. */
  readonly key?: string | (() => string | Promise<string>) | undefined;
  /** The total time of one decision or redemption, with all retries. By default 10 s. */
  readonly deadlineMs?: number | undefined;
  /** The total time of waiting for people. By default an hour. */
  readonly waitMs?: number | undefined;
  /** How long nothing is asked after an outage. By default 5 s. */
  readonly cooldownMs?: number | undefined;
  /** "open" runs calls without a decision while the engine is away. */
  readonly onError?: "closed" | "open" | undefined;
  /** Ask with tokens, which the client mints with its key and renews. */
  readonly token?: TokenOptions | undefined;
  /** A PEM file of the authorities to trust instead of the system's. */
  readonly caFile?: string | undefined;
  /** What each request has. */
  readonly members?: Members | undefined;
  /** Called before the wait for a person, for example to store the id of the review. */
  readonly onReview?: ((review: PendingReview) => void | Promise<void>) | undefined;
  readonly log?: ((line: LogLine) => void) | undefined;
}

export interface LogLine {
  readonly level: "info" | "warn";
  readonly message: string;
  readonly [member: string]: unknown;
}

export interface PendingReview {
  readonly reviewId: string;
  readonly reason: string;
  readonly tool: string;
  readonly args: JsonObject;
}

export interface CallOptions extends Members {
  /** Continue with the review of an earlier request. The arguments have to be the same: an approval holds for no others. */
  readonly reviewId?: string | undefined;
  /** 0 does not wait: a human_review throws ReviewPending. */
  readonly waitMs?: number | undefined;
  readonly signal?: AbortSignal | undefined;
  /** The tools that a safe call may use. By default client.tools. */
  readonly tools?: { has(name: string): boolean } | undefined;
  /** The framework's ids of the call: sent where no member gives them, cut to what the engine takes. */
  readonly ids?: Ids | undefined;
}

export interface Ids {
  readonly toolCallId?: string | number | undefined;
  readonly conversationId?: string | number | undefined;
}

/** What may run now, once: this tool with these arguments, which are frozen at every level. */
export interface Call {
  readonly tool: string;
  readonly args: JsonObject;
  /** null: the engine is away, and onError is "open". */
  readonly decision: Decision | null;
}

export type Tool = (args: any) => unknown;

const DEADLINE_MS = 10_000;
const WAIT_MS = 3_600_000;
const COOLDOWN_MS = 5_000;
const POLL_MS = 30_000;
const POLL_LEAST_MS = 5; // a timer may end this much too early
const ID_CHARACTERS_MAX = 256; // of the engine; frameworks have longer ones
const ROUNDS_MAX = 8; // redemptions that ask people again

/** A POST, with all its attempts. */
interface Sending {
  readonly path: string;
  readonly body: JsonObject;
  /** Idempotency-Key of all attempts. */
  readonly key: string;
  readonly deadline: number;
  readonly signal: AbortSignal | undefined;
  readonly tokens: Tokens | null;
  /** A lost answer is asked for again: the engine keeps it under the key. */
  readonly repeatsLost?: boolean;
}

export class Client {
  /** The registered tools: run() and safe calls use them. */
  readonly tools = new Map<string, Tool>();
  readonly #options: ClientOptions;
  readonly #key: () => string | Promise<string>;
  readonly #wire: Wire;
  readonly #tokens: Tokens | null;
  readonly #breaker: Breaker;
  readonly #doubts = new Doubts();
  readonly #userAgent: string;
  readonly #log: (line: LogLine) => void;

  constructor(options: ClientOptions = {}) {
    const key = options.key ?? process.env["WRIT_KEY"] ?? "";
    if (key === "") throw new TypeError("key: give the agent's API key, here or in WRIT_KEY");
    const onError = options.onError ?? "closed";
    if (onError !== "closed" && onError !== "open") throw new TypeError(`onError: ${JSON.stringify(onError)} is neither "closed" nor "open"`);
    for (const [name, least] of [["deadlineMs", 1], ["waitMs", 0], ["cooldownMs", 0]] as const) {
      if (options[name] !== undefined && !(options[name] >= least)) throw new TypeError(`${name}: ${options[name]} is not a number of milliseconds from ${least}`);
    }
    this.#options = Object.freeze({ ...options, onError, members: Object.freeze({ ...options.members }) });
    this.#key = typeof key === "function" ? key : () => key;
    this.#wire = new Wire(options.url ?? (process.env["WRIT_ENGINE_URL"] || "http://127.0.0.1:8080"), options.caFile);
    this.#tokens = options.token === undefined ? null : new Tokens(options.token, (body, deadline) => this.#mint(body, deadline));
    this.#breaker = new Breaker(options.cooldownMs ?? COOLDOWN_MS);
    this.#userAgent = `writ-client-typescript/${VERSION}${onError === "open" ? " (on_error=open)" : ""}`;
    this.#log = options.log ?? ((line) => line.level === "warn" && console.warn(JSON.stringify(line)));
    bodyOf("any", {}, this.#options.members ?? {}); // throws for a member that no request has
    if (onError === "open") this.#log({ level: "warn", message: 'onError is "open": while the engine is away, calls run without a decision' });
  }

  /** Ends the idle connections. */
  close(): void {
    this.#wire.close();
  }

  // ---- deciding ----

  /** The engine's decision. It runs nothing, waits for no person, and is good once: use permit() or run(). */
  async decide(tool: string, args: object, options: CallOptions = {}): Promise<Decision> {
    return this.#decide(this.#body(tool, args, options), options);
  }

  /** The call that may run now, once. Throws Denied, ReviewPending or NoDecision in every other case. */
  async permit(tool: string, args: object, options: CallOptions = {}): Promise<Call> {
    const body = this.#body(tool, args, options);
    let decision: Decision;
    try {
      decision = options.reviewId === undefined ? await this.#decide(body, options) : await this.#approved(body, reviewIdOf(options.reviewId), options);
    } catch (error) {
      if (this.#options.onError !== "open" || !(error instanceof NoDecision) || !error.outage || options.reviewId !== undefined) throw error;
      this.#log({ level: "warn", message: `${tool} runs without a decision, because onError is "open"`, error: error.message });
      return callOf(tool, body["args"], null);
    }
    for (let round = 0; round < ROUNDS_MAX; round++) {
      if (decision.word !== "human_review") return obey(decision, body, options.tools ?? this.tools);
      const reviewId = reviewIdOf(decision.reviewId ?? undefined);
      this.#log({ level: "info", message: `waiting for a person: ${decision.reason}`, review_id: reviewId });
      await this.#options.onReview?.({ reviewId, reason: decision.reason, tool, args: body["args"] as JsonObject });
      decision = decision.approved ? await this.#redeem(body, reviewId, options) : await this.#approved(body, reviewId, options);
    }
    throw new NoDecision(`People were asked ${ROUNDS_MAX} times about one call.`);
  }

  /** Asks, waits if people decide, and runs the registered tool that may run. */
  async run(tool: string, args: object, options: CallOptions = {}): Promise<unknown> {
    if (!this.tools.has(tool)) throw new TypeError(`${tool} is not registered: use gate() or put it into tools`);
    return invoke(await this.permit(tool, args, options), this.tools);
  }

  /** A function that runs the tool with what was permitted, or throws. It also registers the tool, so that a safe call may use it. */
  gate<A extends object, R>(name: string, tool: (args: A) => R, members: Members | ((args: A) => Members) = {}): (args: A, options?: CallOptions) => Promise<Awaited<R>> {
    this.tools.set(name, tool);
    const gated = async (args: A, options: CallOptions = {}): Promise<unknown> => {
      const about = typeof members === "function" ? members(args) : members;
      return this.run(name, args, { ...about, ...options });
    };
    return gated as (args: A, options?: CallOptions) => Promise<Awaited<R>>;
  }

  /** Several tools behind the gate. */
  guard<T extends { readonly [name: string]: Tool }>(tools: T, members: Members = {}): Guarded<T> {
    return Object.fromEntries(Object.entries(tools).map(([name, tool]) => [name, this.gate(name, tool, members)])) as Guarded<T>;
  }

  // ---- steps ----

  async #decide(body: JsonObject, options: CallOptions): Promise<Decision> {
    return this.#breaker.call(async () => {
      const answer = await this.#post({ ...this.#sending(body, options), path: "/v1/agent/authorize", key: crypto.randomUUID() });
      return readDecision(answer, body);
    });
  }

  /** Waits until people have decided, then redeems their approval. */
  async #approved(body: JsonObject, reviewId: string, options: CallOptions): Promise<Decision> {
    const status = await this.#wait(reviewId, options);
    if (status === "approved" || (status === "redeemed" && this.#doubts.has(reviewId))) return this.#redeem(body, reviewId, options);
    throw new Denied(`The review ${reviewId} is ${status}.`, `review:${status}`);
  }

  /** How the review ended. */
  async #wait(reviewId: string, options: CallOptions): Promise<ReviewStatus> {
    const until = performance.now() + (options.waitMs ?? this.#options.waitMs ?? WAIT_MS);
    let failures = 0;
    let last: unknown;
    for (;;) {
      const now = performance.now();
      if (until - now < POLL_LEAST_MS) throw new ReviewPending(reviewId, last);
      const poll = Math.min(POLL_MS, Math.ceil(until - now));
      try {
        const answer = await this.#get(`/v1/queue/${reviewId}/wait?timeout_ms=${poll}`, Math.min(now + poll + this.#deadlineMs, until), options.signal);
        const status = readStatus(answer, reviewId);
        if (status !== "pending") return status;
        failures = 0;
        last = undefined;
        if (performance.now() - now < poll / 2) await pause(backoff(0), until, options.signal); // it should have waited
      } catch (error) {
        if (!(error instanceof NoDecision)) throw error;
        if (!error.outage && error.status !== 429) throw error.of(reviewId);
        last = error;
        await pause(backoff(failures++), until, options.signal);
      }
    }
  }

  /** Uses the approval. Until there is an answer it is in doubt, and each attempt has the same Idempotency-Key and ids. */
  async #redeem(body: JsonObject, reviewId: string, options: CallOptions): Promise<Decision> {
    const { tool_call_id: toolCall, conversation_id: conversation, ...bound } = body;
    const own = { ...(toolCall === undefined ? {} : { tool_call_id: toolCall }), ...(conversation === undefined ? {} : { conversation_id: conversation }) };
    const { key, ids, isKnown } = this.#doubts.take(reviewId, own);
    let isAnswered = false;
    try {
      const answer = await this.#post({ ...this.#sending({ ...bound, ...ids }, options), path: `/v1/queue/${reviewId}/redeem`, key, repeatsLost: true });
      isAnswered = true;
      return readDecision({ ...answer, repeated: answer.repeated || isKnown }, body);
    } catch (error) {
      isAnswered ||= error instanceof NoDecision && error.status !== null && !error.outage;
      throw error instanceof NoDecision ? error.of(reviewId) : error;
    } finally {
      this.#doubts.put(reviewId, isAnswered ? null : { key, ids });
    }
  }

  async #mint(body: JsonObject, deadline: number): Promise<Minted> {
    return readMinted(await this.#post({ path: "/v1/tokens/mint", body, key: crypto.randomUUID(), deadline, signal: undefined, tokens: null }, 201));
  }

  // ---- requests ----

  /** Posts until there is an answer other than 429 and 503. Connect errors are retried; lost answers only if `repeatsLost`. */
  async #post(sending: Sending, wanted = 200): Promise<Answer> {
    const { path, deadline, signal, tokens } = sending;
    const body = JSON.stringify(sending.body);
    let repeated = false;
    let isRenewed = false;
    for (let failures = 0; ; failures++) {
      let failure: NoDecision;
      let after = backoff(failures);
      const requestId = crypto.randomUUID();
      const credential = await this.#credential(tokens, true, deadline, signal);
      const headers = { ...this.#headers(credential, requestId), "Idempotency-Key": sending.key };
      try {
        const reply = await this.#wire.exchange({ method: "POST", path, headers, body, deadline, signal });
        if (reply.status === wanted) return { reply, requestId, repeated };
        failure = errorOf(reply);
        if (tokens !== null && !isRenewed && isRenewable(failure)) {
          isRenewed = true;
          tokens.drop(credential);
          continue;
        }
        if (reply.status !== 429 && reply.status !== 503) throw failure;
        after = Math.max(after, retryAfterMs(reply.headers["retry-after"]));
        repeated = true;
      } catch (error) {
        if (!(error instanceof WireError)) throw error;
        failure = broken(error);
        if (error.fault !== "connect" && !(error.fault === "lost" && sending.repeatsLost)) throw failure;
        if (error.fault === "lost") repeated = true;
      }
      if (performance.now() + after >= deadline) throw failure;
      await pause(after, deadline, signal);
    }
  }

  /** One attempt: waiting has a loop of its own. */
  async #get(path: string, deadline: number, signal: AbortSignal | undefined): Promise<Answer> {
    for (let isRenewed = false; ; isRenewed = true) {
      const requestId = crypto.randomUUID();
      const credential = await this.#credential(this.#tokens, false, deadline, signal);
      const reply = await this.#wire.exchange({ method: "GET", path, headers: this.#headers(credential, requestId), deadline, signal }).catch((error: unknown) => {
        throw error instanceof WireError ? broken(error) : error;
      });
      if (reply.status === 200) return { reply, requestId, repeated: false };
      const failure = errorOf(reply);
      if (this.#tokens === null || isRenewed || !isRenewable(failure)) throw failure;
      this.#tokens.drop(credential);
    }
  }

  #headers(credential: string, requestId: string): Record<string, string> {
    return { Authorization: `Bearer ${credential}`, "User-Agent": this.#userAgent, "X-Request-ID": requestId };
  }

  async #credential(tokens: Tokens | null, spends: boolean, deadline: number, signal: AbortSignal | undefined): Promise<string> {
    const credential = await within(tokens === null ? this.#key() : tokens.take(spends, deadline), deadline, signal);
    if (!/^[!-~]+$/.test(credential)) throw new NoDecision("The key has characters that a key does not have.");
    return credential;
  }

  #sending(body: JsonObject, options: CallOptions): Pick<Sending, "body" | "deadline" | "signal" | "tokens"> {
    return { body, deadline: performance.now() + this.#deadlineMs, signal: options.signal, tokens: this.#tokens };
  }

  get #deadlineMs(): number {
    return this.#options.deadlineMs ?? DEADLINE_MS;
  }

  #body(tool: string, args: object, options: CallOptions): JsonObject {
    const { reviewId, waitMs, signal, tools, ids, ...members } = options;
    return bodyOf(tool, args, { ...fitting(ids), ...this.#options.members, ...members });
  }
}

export type Guarded<T extends { readonly [name: string]: Tool }> = {
  readonly [K in keyof T]: (args: Parameters<T[K]>[0], options?: CallOptions) => Promise<Awaited<ReturnType<T[K]>>>;
};

function fitting({ toolCallId, conversationId }: Ids = {}): Members {
  const cut = (id: unknown) => (typeof id === "string" || typeof id === "number" ? [...String(id)].slice(0, ID_CHARACTERS_MAX).join("") : undefined);
  return { toolCallId: cut(toolCallId), conversationId: cut(conversationId) };
}

/** The body of a request: a frozen copy, so nothing that happens to the caller's objects changes what runs. */
function bodyOf(tool: string, args: object, members: Members): JsonObject {
  if (typeof tool !== "string" || tool === "") throw new TypeError("tool: the name of a tool is needed");
  const body: Record<string, unknown> = { action: tool, args };
  for (const [name, value] of Object.entries(members)) {
    if (!Object.hasOwn(MEMBERS, name)) throw new TypeError(`${name} is no member of a request; there are ${Object.keys(MEMBERS).join(", ")}`);
    body[MEMBERS[name as keyof Members]] = value ?? undefined;
  }
  const whole = copy(body, "request") as JsonObject;
  if (!isObject(whole["args"])) throw new TypeError("args: an object of names and values is needed");
  return whole;
}

function obey(decision: Decision, body: JsonObject, tools: { has(name: string): boolean }): Call {
  const tool = body["action"] as string;
  switch (decision.word) {
    case "allow":
      return callOf(tool, body["args"], decision);
    case "compute": {
      const safe = decision.safeTool ?? "";
      if (safe !== tool && !tools.has(safe)) throw new NoDecision(`The safe call uses ${JSON.stringify(safe)}, which is no tool of this agent.`);
      return callOf(safe, decision.safeArgs ?? undefined, decision);
    }
    default:
      throw new Denied(decision.reason || "The engine denies this call.", decision.rule);
  }
}

function callOf(tool: string, args: JsonObject[string] | undefined, decision: Decision | null): Call {
  if (tool === "" || !isObject(args)) throw new NoDecision("There is no call to run.");
  return Object.freeze({ tool, args, decision });
}

/** Runs a permitted call with one of these tools. */
async function invoke(call: Call, tools: ReadonlyMap<string, Tool>): Promise<unknown> {
  const tool = tools.get(call.tool);
  if (tool === undefined) throw new NoDecision(`The decision names ${JSON.stringify(call.tool)}, which is no tool of this agent.`);
  return await tool(call.args);
}

function isRenewable(failure: NoDecision): boolean {
  return failure.status === 401 && RENEWABLE.has(failure.code ?? "");
}

const OUTAGES: ReadonlySet<string> = new Set(["connect", "lost", "late"]);

function broken(error: WireError): NoDecision {
  if (error.fault === "aborted") return new NoDecision("The caller has given up.", { cause: error.cause });
  const outage = OUTAGES.has(error.fault);
  return new NoDecision(outage ? `The engine is away: ${error.message}.` : `The answer is not accepted: ${error.message}.`, { outage, cause: error });
}

/** Milliseconds until the time that a Retry-After names, in seconds or as a date. */
function retryAfterMs(text: string | undefined): number {
  if (text === undefined) return 0;
  if (/^\d{1,9}$/.test(text)) return Number(text) * 1000;
  const date = Date.parse(text);
  return Number.isNaN(date) ? 0 : date - Date.now();
}

// ---- the client that the functions gate and guard use ----

let one: Client | undefined;

/** The client that WRIT_ENGINE_URL and WRIT_KEY describe, made at its first use. */
export function defaultClient(): Client {
  return (one ??= new Client());
}

/** As Client.gate, with the default client. */
export function gate<A extends object, R>(name: string, tool: (args: A) => R, members: Members | ((args: A) => Members) = {}): (args: A, options?: CallOptions) => Promise<Awaited<R>> {
  return defaultClient().gate(name, tool, members);
}

/** As Client.guard, with the default client. */
export function guard<T extends { readonly [name: string]: Tool }>(tools: T, members: Members = {}): Guarded<T> {
  return defaultClient().guard(tools, members);
}

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
import { Breaker } from "./breaker.js";
import { Doubts } from "./doubts.js";
import { Denied, NoDecision, ReviewPending } from "./errors.js";
import { copy, isObject } from "./json.js";
import { backoff, pause, within } from "./time.js";
import { RENEWABLE, Tokens } from "./tokens.js";
import { VERSION } from "./version.js";
import { Wire, WireError } from "./wire.js";
const MEMBERS = {
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
const DEADLINE_MS = 10_000;
const WAIT_MS = 3_600_000;
const COOLDOWN_MS = 5_000;
const POLL_MS = 30_000;
const POLL_LEAST_MS = 5; // a timer may end this much too early
const ID_CHARACTERS_MAX = 256; // of the engine; frameworks have longer ones
const ROUNDS_MAX = 8; // redemptions that ask people again
export class Client {
    /** The registered tools: run() and safe calls use them. */
    tools = new Map();
    #options;
    #key;
    #wire;
    #tokens;
    #breaker;
    #doubts = new Doubts();
    #userAgent;
    #log;
    constructor(options = {}) {
        const key = options.key ?? process.env["WRIT_KEY"] ?? "";
        if (key === "")
            throw new TypeError("key: give the agent's API key, here or in WRIT_KEY");
        const onError = options.onError ?? "closed";
        if (onError !== "closed" && onError !== "open")
            throw new TypeError(`onError: ${JSON.stringify(onError)} is neither "closed" nor "open"`);
        for (const [name, least] of [["deadlineMs", 1], ["waitMs", 0], ["cooldownMs", 0]]) {
            if (options[name] !== undefined && !(options[name] >= least))
                throw new TypeError(`${name}: ${options[name]} is not a number of milliseconds from ${least}`);
        }
        this.#options = Object.freeze({ ...options, onError, members: Object.freeze({ ...options.members }) });
        this.#key = typeof key === "function" ? key : () => key;
        this.#wire = new Wire(options.url ?? (process.env["WRIT_ENGINE_URL"] || "http://127.0.0.1:8080"), options.caFile);
        this.#tokens = options.token === undefined ? null : new Tokens(options.token, (body, deadline) => this.#mint(body, deadline));
        this.#breaker = new Breaker(options.cooldownMs ?? COOLDOWN_MS);
        this.#userAgent = `writ-client-typescript/${VERSION}${onError === "open" ? " (on_error=open)" : ""}`;
        this.#log = options.log ?? ((line) => line.level === "warn" && console.warn(JSON.stringify(line)));
        bodyOf("any", {}, this.#options.members ?? {}); // throws for a member that no request has
        if (onError === "open")
            this.#log({ level: "warn", message: 'onError is "open": while the engine is away, calls run without a decision' });
    }
    /** Ends the idle connections. */
    close() {
        this.#wire.close();
    }
    // ---- deciding ----
    /** The engine's decision. It runs nothing, waits for no person, and is good once: use permit() or run(). */
    async decide(tool, args, options = {}) {
        return this.#decide(this.#body(tool, args, options), options);
    }
    /** The call that may run now, once. Throws Denied, ReviewPending or NoDecision in every other case. */
    async permit(tool, args, options = {}) {
        const body = this.#body(tool, args, options);
        let decision;
        try {
            decision = options.reviewId === undefined ? await this.#decide(body, options) : await this.#approved(body, reviewIdOf(options.reviewId), options);
        }
        catch (error) {
            if (this.#options.onError !== "open" || !(error instanceof NoDecision) || !error.outage || options.reviewId !== undefined)
                throw error;
            this.#log({ level: "warn", message: `${tool} runs without a decision, because onError is "open"`, error: error.message });
            return callOf(tool, body["args"], null);
        }
        for (let round = 0; round < ROUNDS_MAX; round++) {
            if (decision.word !== "human_review")
                return obey(decision, body, options.tools ?? this.tools);
            const reviewId = reviewIdOf(decision.reviewId ?? undefined);
            this.#log({ level: "info", message: `waiting for a person: ${decision.reason}`, review_id: reviewId });
            await this.#options.onReview?.({ reviewId, reason: decision.reason, tool, args: body["args"] });
            decision = decision.approved ? await this.#redeem(body, reviewId, options) : await this.#approved(body, reviewId, options);
        }
        throw new NoDecision(`People were asked ${ROUNDS_MAX} times about one call.`);
    }
    /** Asks, waits if people decide, and runs the registered tool that may run. */
    async run(tool, args, options = {}) {
        if (!this.tools.has(tool))
            throw new TypeError(`${tool} is not registered: use gate() or put it into tools`);
        return invoke(await this.permit(tool, args, options), this.tools);
    }
    /** A function that runs the tool with what was permitted, or throws. It also registers the tool, so that a safe call may use it. */
    gate(name, tool, members = {}) {
        this.tools.set(name, tool);
        const gated = async (args, options = {}) => {
            const about = typeof members === "function" ? members(args) : members;
            return this.run(name, args, { ...about, ...options });
        };
        return gated;
    }
    /** Several tools behind the gate. */
    guard(tools, members = {}) {
        return Object.fromEntries(Object.entries(tools).map(([name, tool]) => [name, this.gate(name, tool, members)]));
    }
    // ---- steps ----
    async #decide(body, options) {
        return this.#breaker.call(async () => {
            const answer = await this.#post({ ...this.#sending(body, options), path: "/v1/agent/authorize", key: crypto.randomUUID() });
            return readDecision(answer, body);
        });
    }
    /** Waits until people have decided, then redeems their approval. */
    async #approved(body, reviewId, options) {
        const status = await this.#wait(reviewId, options);
        if (status === "approved" || (status === "redeemed" && this.#doubts.has(reviewId)))
            return this.#redeem(body, reviewId, options);
        throw new Denied(`The review ${reviewId} is ${status}.`, `review:${status}`);
    }
    /** How the review ended. */
    async #wait(reviewId, options) {
        const until = performance.now() + (options.waitMs ?? this.#options.waitMs ?? WAIT_MS);
        let failures = 0;
        let last;
        for (;;) {
            const now = performance.now();
            if (until - now < POLL_LEAST_MS)
                throw new ReviewPending(reviewId, last);
            const poll = Math.min(POLL_MS, Math.ceil(until - now));
            try {
                const answer = await this.#get(`/v1/queue/${reviewId}/wait?timeout_ms=${poll}`, Math.min(now + poll + this.#deadlineMs, until), options.signal);
                const status = readStatus(answer, reviewId);
                if (status !== "pending")
                    return status;
                failures = 0;
                last = undefined;
                if (performance.now() - now < poll / 2)
                    await pause(backoff(0), until, options.signal); // it should have waited
            }
            catch (error) {
                if (!(error instanceof NoDecision))
                    throw error;
                if (!error.outage && error.status !== 429)
                    throw error.of(reviewId);
                last = error;
                await pause(backoff(failures++), until, options.signal);
            }
        }
    }
    /** Uses the approval. Until there is an answer it is in doubt, and each attempt has the same Idempotency-Key and ids. */
    async #redeem(body, reviewId, options) {
        const { tool_call_id: toolCall, conversation_id: conversation, ...bound } = body;
        const own = { ...(toolCall === undefined ? {} : { tool_call_id: toolCall }), ...(conversation === undefined ? {} : { conversation_id: conversation }) };
        const { key, ids, isKnown } = this.#doubts.take(reviewId, own);
        let isAnswered = false;
        try {
            const answer = await this.#post({ ...this.#sending({ ...bound, ...ids }, options), path: `/v1/queue/${reviewId}/redeem`, key, repeatsLost: true });
            isAnswered = true;
            return readDecision({ ...answer, repeated: answer.repeated || isKnown }, body);
        }
        catch (error) {
            isAnswered ||= error instanceof NoDecision && error.status !== null && !error.outage;
            throw error instanceof NoDecision ? error.of(reviewId) : error;
        }
        finally {
            this.#doubts.put(reviewId, isAnswered ? null : { key, ids });
        }
    }
    async #mint(body, deadline) {
        return readMinted(await this.#post({ path: "/v1/tokens/mint", body, key: crypto.randomUUID(), deadline, signal: undefined, tokens: null }, 201));
    }
    // ---- requests ----
    /** Posts until there is an answer other than 429 and 503. Connect errors are retried; lost answers only if `repeatsLost`. */
    async #post(sending, wanted = 200) {
        const { path, deadline, signal, tokens } = sending;
        const body = JSON.stringify(sending.body);
        let repeated = false;
        let isRenewed = false;
        for (let failures = 0;; failures++) {
            let failure;
            let after = backoff(failures);
            const requestId = crypto.randomUUID();
            const credential = await this.#credential(tokens, true, deadline, signal);
            const headers = { ...this.#headers(credential, requestId), "Idempotency-Key": sending.key };
            try {
                const reply = await this.#wire.exchange({ method: "POST", path, headers, body, deadline, signal });
                if (reply.status === wanted)
                    return { reply, requestId, repeated };
                failure = errorOf(reply);
                if (tokens !== null && !isRenewed && isRenewable(failure)) {
                    isRenewed = true;
                    tokens.drop(credential);
                    continue;
                }
                if (reply.status !== 429 && reply.status !== 503)
                    throw failure;
                after = Math.max(after, retryAfterMs(reply.headers["retry-after"]));
                repeated = true;
            }
            catch (error) {
                if (!(error instanceof WireError))
                    throw error;
                failure = broken(error);
                if (error.fault !== "connect" && !(error.fault === "lost" && sending.repeatsLost))
                    throw failure;
                if (error.fault === "lost")
                    repeated = true;
            }
            if (performance.now() + after >= deadline)
                throw failure;
            await pause(after, deadline, signal);
        }
    }
    /** One attempt: waiting has a loop of its own. */
    async #get(path, deadline, signal) {
        for (let isRenewed = false;; isRenewed = true) {
            const requestId = crypto.randomUUID();
            const credential = await this.#credential(this.#tokens, false, deadline, signal);
            const reply = await this.#wire.exchange({ method: "GET", path, headers: this.#headers(credential, requestId), deadline, signal }).catch((error) => {
                throw error instanceof WireError ? broken(error) : error;
            });
            if (reply.status === 200)
                return { reply, requestId, repeated: false };
            const failure = errorOf(reply);
            if (this.#tokens === null || isRenewed || !isRenewable(failure))
                throw failure;
            this.#tokens.drop(credential);
        }
    }
    #headers(credential, requestId) {
        return { Authorization: `Bearer ${credential}`, "User-Agent": this.#userAgent, "X-Request-ID": requestId };
    }
    async #credential(tokens, spends, deadline, signal) {
        const credential = await within(tokens === null ? this.#key() : tokens.take(spends, deadline), deadline, signal);
        if (!/^[!-~]+$/.test(credential))
            throw new NoDecision("The key has characters that a key does not have.");
        return credential;
    }
    #sending(body, options) {
        return { body, deadline: performance.now() + this.#deadlineMs, signal: options.signal, tokens: this.#tokens };
    }
    get #deadlineMs() {
        return this.#options.deadlineMs ?? DEADLINE_MS;
    }
    #body(tool, args, options) {
        const { reviewId, waitMs, signal, tools, ids, ...members } = options;
        return bodyOf(tool, args, { ...fitting(ids), ...this.#options.members, ...members });
    }
}
function fitting({ toolCallId, conversationId } = {}) {
    const cut = (id) => (typeof id === "string" || typeof id === "number" ? [...String(id)].slice(0, ID_CHARACTERS_MAX).join("") : undefined);
    return { toolCallId: cut(toolCallId), conversationId: cut(conversationId) };
}
/** The body of a request: a frozen copy, so nothing that happens to the caller's objects changes what runs. */
function bodyOf(tool, args, members) {
    if (typeof tool !== "string" || tool === "")
        throw new TypeError("tool: the name of a tool is needed");
    const body = { action: tool, args };
    for (const [name, value] of Object.entries(members)) {
        if (!Object.hasOwn(MEMBERS, name))
            throw new TypeError(`${name} is no member of a request; there are ${Object.keys(MEMBERS).join(", ")}`);
        body[MEMBERS[name]] = value ?? undefined;
    }
    const whole = copy(body, "request");
    if (!isObject(whole["args"]))
        throw new TypeError("args: an object of names and values is needed");
    return whole;
}
function obey(decision, body, tools) {
    const tool = body["action"];
    switch (decision.word) {
        case "allow":
            return callOf(tool, body["args"], decision);
        case "compute": {
            const safe = decision.safeTool ?? "";
            if (safe !== tool && !tools.has(safe))
                throw new NoDecision(`The safe call uses ${JSON.stringify(safe)}, which is no tool of this agent.`);
            return callOf(safe, decision.safeArgs ?? undefined, decision);
        }
        default:
            throw new Denied(decision.reason || "The engine denies this call.", decision.rule);
    }
}
function callOf(tool, args, decision) {
    if (tool === "" || !isObject(args))
        throw new NoDecision("There is no call to run.");
    return Object.freeze({ tool, args, decision });
}
/** Runs a permitted call with one of these tools. */
async function invoke(call, tools) {
    const tool = tools.get(call.tool);
    if (tool === undefined)
        throw new NoDecision(`The decision names ${JSON.stringify(call.tool)}, which is no tool of this agent.`);
    return await tool(call.args);
}
function isRenewable(failure) {
    return failure.status === 401 && RENEWABLE.has(failure.code ?? "");
}
const OUTAGES = new Set(["connect", "lost", "late"]);
function broken(error) {
    if (error.fault === "aborted")
        return new NoDecision("The caller has given up.", { cause: error.cause });
    const outage = OUTAGES.has(error.fault);
    return new NoDecision(outage ? `The engine is away: ${error.message}.` : `The answer is not accepted: ${error.message}.`, { outage, cause: error });
}
/** Milliseconds until the time that a Retry-After names, in seconds or as a date. */
function retryAfterMs(text) {
    if (text === undefined)
        return 0;
    if (/^\d{1,9}$/.test(text))
        return Number(text) * 1000;
    const date = Date.parse(text);
    return Number.isNaN(date) ? 0 : date - Date.now();
}
// ---- the client that the functions gate and guard use ----
let one;
/** The client that WRIT_ENGINE_URL and WRIT_KEY describe, made at its first use. */
export function defaultClient() {
    return (one ??= new Client());
}
/** As Client.gate, with the default client. */
export function gate(name, tool, members = {}) {
    return defaultClient().gate(name, tool, members);
}
/** As Client.guard, with the default client. */
export function guard(tools, members = {}) {
    return defaultClient().guard(tools, members);
}

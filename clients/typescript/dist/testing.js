/* testing.ts - an engine for the tests of an agent: on a socket, with the real routes and answers, and rules of your own.
 *
 *     const engine = await TestEngine.start({ issue_refund: "human_review", read_file: "allow" });
 *     const writ = engine.client();
 *     engine.onReview = (review) => review.approve("carol");
 *
 * An action without a rule is denied, as by the real engine. Reviews are bound to their request, and are redeemed once. */
import { createHash, randomBytes } from "node:crypto";
import * as http from "node:http";
import { Client } from "./client.js";
import { isObject, read } from "./json.js";
export class TestReview {
    id;
    request;
    binding;
    members;
    status = "pending";
    resolvedBy = null;
    ended;
    #end = () => undefined;
    constructor(id, request, members) {
        this.id = id;
        this.request = request;
        this.members = members;
        this.binding = bindingOf(request);
        this.ended = new Promise((resolve) => (this.#end = resolve));
    }
    approve(person = "a reviewer") {
        this.#resolve("approved", person);
    }
    deny(person = "a reviewer") {
        this.#resolve("denied", person);
    }
    expire() {
        this.#resolve("expired", null);
    }
    #resolve(status, person) {
        if (this.status !== "pending")
            throw new Error(`review ${this.id} is ${this.status} already`);
        this.status = status;
        this.resolvedBy = person;
        this.#end();
    }
}
const ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const HOUR_MS = 3_600_000;
const WAIT_MAX_MS = 60_000;
const BODY_MAX = 64 << 10;
export class TestEngine {
    rules;
    key = "test-key";
    /** The requests that were decided, in their order. */
    asked = [];
    reviews = [];
    /** Which answers are lost, by the path of the request. What they would report has happened. */
    loses = null;
    /** How many tokens were minted. */
    minted = 0;
    onReview = null;
    #server;
    #tokens = new Set();
    /** Answers by route and Idempotency-Key. */
    #answers = new Map();
    #port = 0;
    constructor(rules) {
        this.rules = { ...rules };
        this.#server = http.createServer((request, answer) => void this.#serve(request, answer));
    }
    static async start(rules = {}) {
        const engine = new TestEngine(rules);
        await engine.up();
        return engine;
    }
    get url() {
        return `http://127.0.0.1:${this.#port}`;
    }
    client(options = {}) {
        return new Client({ url: this.url, key: this.key, ...options });
    }
    /** The engine is away until up(). */
    async down() {
        this.#server.closeAllConnections();
        await new Promise((resolve) => this.#server.close(resolve));
    }
    async up() {
        await new Promise((resolve, reject) => this.#server.once("error", reject).listen(this.#port, "127.0.0.1", resolve));
        this.#port = this.#server.address().port;
    }
    // ---- HTTP ----
    async #serve(request, answer) {
        const { status, body } = await this.#answer(request).catch((error) => fault(500, "internal", String(error)));
        const id = request.headers["x-request-id"] ?? body["request_id"];
        if (this.loses?.(request.url ?? ""))
            return void answer.destroy();
        const text = JSON.stringify(body);
        answer.writeHead(status, { "Content-Type": "application/json", "Content-Length": Buffer.byteLength(text), ...(id === undefined ? {} : { "X-Request-ID": String(id) }) });
        answer.end(text);
    }
    async #answer(request) {
        const url = new URL(request.url ?? "/", this.url);
        const text = await textOf(request);
        const credential = /^Bearer (.+)$/.exec(request.headers.authorization ?? "")?.[1] ?? "";
        if (credential !== this.key && !this.#tokens.has(credential)) {
            return credential.startsWith("test-token-") ? fault(401, "token_unknown", "this engine has not minted this token") : fault(401, "unauthenticated", "no valid credential was presented");
        }
        const review = /^\/v1\/queue\/([^/]+)(\/wait|\/redeem|)$/.exec(url.pathname);
        if (request.method === "GET" && review !== null && review[2] !== "/redeem")
            return this.#review(review[1] ?? "", review[2] === "/wait", url);
        if (request.method !== "POST")
            return fault(404, "not_found", "no resource has this name");
        let body;
        try {
            body = read(text);
        }
        catch (error) {
            return fault(400, "malformed_json", error.message);
        }
        if (!isObject(body))
            return fault(400, "wrong_type", "the body is no object");
        const whole = body;
        const key = request.headers["idempotency-key"];
        const once = (make) => this.#once(`${url.pathname} ${String(key)}`, key !== undefined, text, make);
        if (url.pathname === "/v1/agent/authorize")
            return once(() => this.#decide(whole));
        if (url.pathname === "/v1/tokens/mint")
            return once(() => this.#mint(whole));
        if (review?.[2] === "/redeem")
            return once(() => this.#redeem(review[1] ?? "", whole));
        return fault(404, "not_found", "no resource has this name");
    }
    /** The same answer for the same key, marked as replayed. Refused redemptions are decided again. */
    #once(name, hasKey, text, make) {
        const known = hasKey ? this.#answers.get(name) : undefined;
        if (known !== undefined && known.text !== text)
            return fault(422, "idempotency_mismatch", "this idempotency key was used with another body");
        if (known !== undefined)
            return { status: known.reply.status, body: { ...known.reply.body, replayed: true } };
        const reply = make();
        if (hasKey && reply.status < 300 && reply.body["decision"] !== "deny")
            this.#answers.set(name, { text, reply });
        return reply;
    }
    // ---- decisions ----
    #decide(request) {
        if (typeof request["action"] !== "string" || request["action"] === "")
            return fault(400, "missing_member", "action: a text is required");
        this.asked.push(request);
        const outcome = this.#outcome(request);
        if (outcome.decision !== "human_review")
            return decided(request, outcome);
        const binding = bindingOf(request);
        const same = this.reviews.find((one) => one.binding === binding && (one.status === "pending" || one.status === "approved"));
        const review = same ?? new TestReview(`rev_${id()}`, request, { expires_at: new Date(Date.now() + HOUR_MS).toISOString() });
        if (same === undefined) {
            this.reviews.push(review);
            const { onReview } = this;
            if (onReview !== null)
                setImmediate(() => onReview(review));
        }
        const status = review.status === "approved" ? { review_status: "approved" } : {};
        return decided(request, outcome, { review_id: review.id, expires_at: review.members["expires_at"] ?? "", ...status });
    }
    #outcome(request) {
        const action = request["action"];
        const rule = Object.hasOwn(this.rules, action) ? this.rules[action] : undefined;
        const outcome = typeof rule === "function" ? rule(request) : rule;
        if (outcome === undefined)
            return { decision: "deny", reason: "No rule allows this." };
        return typeof outcome === "string" ? { decision: outcome } : outcome;
    }
    #redeem(reviewId, request) {
        const review = this.reviews.find((one) => one.id === reviewId);
        if (review === undefined)
            return fault(404, "not_found", "no resource has this name");
        const about = { review_id: reviewId };
        if (review.binding !== bindingOf(request)) {
            return decided(request, { decision: "deny", reason: "The request is not the one that was approved." }, { ...about, rule: "review:binding" });
        }
        if (review.status !== "approved")
            return decided(request, { decision: "deny", reason: `The review is ${review.status}.` }, { ...about, rule: `review:${review.status}` });
        const now = this.#outcome(request);
        if (now.decision === "deny")
            return decided(request, now, about);
        review.status = "redeemed";
        return decided(request, now.decision === "human_review" ? { decision: "allow", reason: "A person has approved this." } : now, { ...about, redemption_id: `evt_${id()}` });
    }
    async #review(reviewId, waits, url) {
        const review = this.reviews.find((one) => one.id === reviewId);
        if (review === undefined)
            return fault(404, "not_found", "no resource has this name");
        if (waits && review.status === "pending") {
            const ms = Math.min(Number(url.searchParams.get("timeout_ms") ?? 30_000), WAIT_MAX_MS);
            let timer;
            await Promise.race([review.ended, new Promise((resolve) => (timer = setTimeout(resolve, ms)))]);
            clearTimeout(timer);
        }
        const { action, args, actor } = review.request;
        const body = {
            id: review.id,
            status: review.status,
            kind: "agent",
            tenant_id: "default",
            action,
            reason: "A person decides.",
            rule: "review:test",
            approvals_required: 1,
            approvals: [],
            ...review.members,
            ...(args === undefined ? {} : { args }),
            ...(actor === undefined ? {} : { actor }),
            ...(review.resolvedBy === null ? {} : { resolved_by: review.resolvedBy }),
        };
        return { status: 200, body };
    }
    #mint(request) {
        const token = `test-token-${randomBytes(16).toString("hex")}`;
        this.#tokens.add(token);
        this.minted++;
        const seconds = typeof request["ttl_seconds"] === "number" ? request["ttl_seconds"] : 60;
        const scope = Array.isArray(request["scope"]) ? request["scope"].join(" ") : String(request["scope"]);
        return { status: 201, body: { token, token_id: `tok_${id()}`, token_type: "Bearer", expires_at: Math.floor(Date.now() / 1000) + seconds, scope } };
    }
    /** Tokens are unknown from now on, as after a loss of the engine's state. */
    forgetTokens() {
        this.#tokens.clear();
    }
}
function decided(request, outcome, more = {}) {
    const { decision } = outcome;
    const kind = decision === "human_review" ? "review" : decision;
    const body = {
        request_id: `req_${id()}`,
        trace_id: typeof request["trace_id"] === "string" ? request["trace_id"] : randomBytes(16).toString("hex"),
        allowed: decision === "allow",
        requires_human_review: decision === "human_review",
        compute: decision === "compute",
        decision,
        reason: outcome.reason ?? `A rule of the test engine decides ${decision}.`,
        rule: `${kind}:test`,
        policy_digest: hash(""),
        latency_ms: 0.01,
        mode: "live",
        timestamp: new Date().toISOString(),
        input_hash: hash(JSON.stringify(request)),
        output_hash: hash(decision),
        ...(decision === "compute" ? { safe_tool: outcome.safeTool ?? "", safe_args: (outcome.safeArgs ?? {}) } : {}),
        ...more,
    };
    return { status: 200, body };
}
function fault(status, code, error) {
    return { status, body: { code, error } };
}
function bindingOf(request) {
    const bound = ["acting_for", "action", "actor", "args", "context", "resource", "scope", "tenant_id"];
    return canonical(Object.fromEntries(bound.filter((name) => request[name] !== undefined).map((name) => [name, request[name]])));
}
function canonical(value) {
    if (Array.isArray(value))
        return `[${value.map(canonical).join(",")}]`;
    if (!isObject(value))
        return JSON.stringify(value);
    const names = Object.keys(value).sort();
    return `{${names.map((name) => `${JSON.stringify(name)}:${canonical(value[name])}`).join(",")}}`;
}
function hash(text) {
    return createHash("sha256").update(text).digest("hex");
}
function id() {
    return Array.from(randomBytes(26), (byte) => ALPHABET[byte % 32]).join("");
}
async function textOf(request) {
    const pieces = [];
    let size = 0;
    for await (const piece of request) {
        size += piece.length;
        if (size > BODY_MAX)
            throw new Error("the body is over the limit");
        pieces.push(piece);
    }
    return Buffer.concat(pieces).toString("utf8");
}

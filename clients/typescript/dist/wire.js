/* wire.ts - one HTTP exchange with the engine.
 *
 * node:http, and not fetch: it never follows a redirect, never asks a proxy, never repeats a request by itself,
 * and its errors show whether the request can have reached the engine. */
import * as http from "node:http";
import * as https from "node:https";
import { readFileSync } from "node:fs";
import { TIMER_MAX_MS } from "./time.js";
export class WireError extends Error {
    name = "WireError";
    fault;
    constructor(fault, message, cause) {
        super(message, cause === undefined ? undefined : { cause });
        this.fault = fault;
    }
}
/** An idle connection is closed after this time, long before the engine would close it. */
const IDLE_MS = 15_000;
/** On a kept connection, Deno sends a POST a second time by itself when the first answer is lost. */
const IS_DENO = "Deno" in globalThis;
const DECISIONS_AT_ONCE = 100;
const ANSWER_MAX = 1 << 20;
const UNREACHABLE = new Set(["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH", "EHOSTDOWN", "ENETDOWN", "EADDRNOTAVAIL", "ETIMEDOUT"]);
const BROKEN = new Set(["ECONNRESET", "EPIPE", "ECONNABORTED"]);
/** What an error means at this stage. One that is not known is held to be of TLS: no outage, and not tried again. */
function faultOf(stage, code) {
    if (stage === "sent")
        return "lost";
    if (UNREACHABLE.has(code ?? ""))
        return "connect";
    if (BROKEN.has(code ?? ""))
        return stage === "tls" ? "connect" : "lost"; // Deno does not report when it is connected
    return "tls";
}
export class Wire {
    #base;
    /** Waits have connections of their own, so that they keep no decision from being asked for. */
    #agents;
    #send;
    constructor(url, caFile) {
        this.#base = new URL(url);
        if (this.#base.protocol !== "http:" && this.#base.protocol !== "https:") {
            throw new TypeError(`url: ${url} is neither http: nor https:`);
        }
        if (this.#base.username !== "" || this.#base.password !== "" || this.#base.search !== "" || this.#base.hash !== "") {
            throw new TypeError("url: only scheme, host, port and a path are possible; the key has an option of its own");
        }
        const isSecure = this.#base.protocol === "https:";
        const ca = caFile === undefined ? {} : { ca: readFileSync(caFile) };
        const agent = (maxSockets) => {
            const options = { keepAlive: !IS_DENO, timeout: IDLE_MS, maxSockets };
            return isSecure ? new https.Agent({ ...options, ...ca, rejectUnauthorized: true }) : new http.Agent(options);
        };
        this.#send = isSecure ? https.request : http.request;
        this.#agents = { POST: agent(DECISIONS_AT_ONCE), GET: agent(Infinity) };
    }
    close() {
        this.#agents.POST.destroy();
        this.#agents.GET.destroy();
    }
    exchange(sent) {
        return new Promise((resolve, reject) => {
            const left = sent.deadline - performance.now();
            if (sent.signal?.aborted)
                return reject(new WireError("aborted", "the caller gave up", sent.signal.reason));
            if (left <= 0)
                return reject(new WireError("late", "no time is left"));
            let stage = "connect";
            const path = this.#base.pathname.replace(/\/+$/, "") + sent.path;
            const headers = { Accept: "application/json", "Accept-Encoding": "identity", ...sent.headers };
            if (sent.body !== undefined) {
                headers["Content-Type"] = "application/json";
                headers["Content-Length"] = String(Buffer.byteLength(sent.body));
            }
            const request = this.#send({
                protocol: this.#base.protocol,
                hostname: this.#base.hostname.replace(/^\[|\]$/g, ""),
                port: this.#base.port,
                method: sent.method,
                path,
                headers,
                agent: this.#agents[sent.method],
            });
            const timer = setTimeout(() => end(new WireError("late", "it did not answer in time")), Math.min(left, TIMER_MAX_MS));
            const abort = () => end(new WireError("aborted", "the caller gave up", sent.signal?.reason));
            sent.signal?.addEventListener("abort", abort, { once: true });
            let ended = false;
            function end(result) {
                if (ended)
                    return;
                ended = true;
                clearTimeout(timer);
                sent.signal?.removeEventListener("abort", abort);
                if (!(result instanceof WireError))
                    return resolve(result);
                request.destroy();
                reject(result);
            }
            function broken(cause) {
                const fault = faultOf(stage, cause.code);
                end(new WireError(fault, `${fault === "lost" ? "the answer was lost" : "there is no connection"} (${cause.message})`, cause));
            }
            request.on("socket", (socket) => {
                if (!socket.connecting)
                    stage = "sent";
                else if (this.#base.protocol === "http:")
                    socket.once("connect", () => (stage = "sent"));
                else {
                    socket.once("connect", () => (stage = "tls"));
                    socket.once("secureConnect", () => (stage = "sent"));
                }
            });
            request.on("error", broken);
            request.on("response", (answer) => {
                const pieces = [];
                let size = 0;
                answer.on("error", broken);
                answer.on("data", (piece) => {
                    size += piece.length;
                    if (size > ANSWER_MAX)
                        return end(new WireError("large", `the answer is over ${ANSWER_MAX} bytes`));
                    pieces.push(piece);
                });
                answer.on("close", () => {
                    if (!answer.complete)
                        end(new WireError("lost", "the answer was cut"));
                });
                answer.on("end", () => {
                    if (!answer.complete)
                        return end(new WireError("lost", "the answer was cut"));
                    try {
                        const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(Buffer.concat(pieces));
                        end({ status: answer.statusCode ?? 0, headers: answer.headers, text });
                    }
                    catch (cause) {
                        end(new WireError("text", "the answer is not UTF-8", cause));
                    }
                });
            });
            request.end(sent.body);
        });
    }
}

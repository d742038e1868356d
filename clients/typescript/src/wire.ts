/* wire.ts - one HTTP exchange with the engine.
 *
 * node:http, and not fetch: it never follows a redirect, never asks a proxy, never repeats a request by itself,
 * and its errors show whether the request can have reached the engine. */

import * as http from "node:http";
import * as https from "node:https";
import { readFileSync } from "node:fs";
import type { Socket } from "node:net";
import { TIMER_MAX_MS } from "./time.js";

export interface Sent {
  readonly method: "GET" | "POST";
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
  /** By performance.now(). */
  readonly deadline: number;
  readonly signal?: AbortSignal | undefined;
}

export interface Reply {
  readonly status: number;
  readonly headers: http.IncomingHttpHeaders;
  readonly text: string;
}

/** connect: no connection. tls: no TLS, or not the server's certificate. lost: the connection ended before the answer did. late: the
 * deadline. large, text: the answer itself. aborted: the caller. */
export type Fault = "connect" | "tls" | "lost" | "late" | "large" | "text" | "aborted";

export class WireError extends Error {
  override readonly name = "WireError";
  readonly fault: Fault;

  constructor(fault: Fault, message: string, cause?: unknown) {
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
const UNREACHABLE: ReadonlySet<string> = new Set(
  ["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH", "EHOSTDOWN", "ENETDOWN", "EADDRNOTAVAIL", "ETIMEDOUT"],
);
const BROKEN: ReadonlySet<string> = new Set(["ECONNRESET", "EPIPE", "ECONNABORTED"]);

type Stage = "connect" | "tls" | "sent";

/** What an error means at this stage. One that is not known is held to be of TLS: no outage, and not tried again. */
function faultOf(stage: Stage, code: string | undefined): Fault {
  if (stage === "sent") return "lost";
  if (UNREACHABLE.has(code ?? "")) return "connect";
  if (BROKEN.has(code ?? "")) return stage === "tls" ? "connect" : "lost"; // Deno does not report when it is connected
  return "tls";
}

export class Wire {
  readonly #base: URL;
  /** Waits have connections of their own, so that they keep no decision from being asked for. */
  readonly #agents: { readonly POST: http.Agent; readonly GET: http.Agent };
  readonly #send: typeof http.request;

  constructor(url: string, caFile: string | undefined) {
    this.#base = new URL(url);
    if (this.#base.protocol !== "http:" && this.#base.protocol !== "https:") {
      throw new TypeError(`url: ${url} is neither http: nor https:`);
    }
    if (this.#base.username !== "" || this.#base.password !== "" || this.#base.search !== "" || this.#base.hash !== "") {
      throw new TypeError("url: only scheme, host, port and a path are possible; the key has an option of its own");
    }
    const isSecure = this.#base.protocol === "https:";
    const ca = caFile === undefined ? {} : { ca: readFileSync(caFile) };
    const agent = (maxSockets: number): http.Agent => {
      const options = { keepAlive: !IS_DENO, timeout: IDLE_MS, maxSockets };
      return isSecure ? new https.Agent({ ...options, ...ca, rejectUnauthorized: true }) : new http.Agent(options);
    };
    this.#send = isSecure ? https.request : http.request;
    this.#agents = { POST: agent(DECISIONS_AT_ONCE), GET: agent(Infinity) };
  }

  close(): void {
    this.#agents.POST.destroy();
    this.#agents.GET.destroy();
  }

  exchange(sent: Sent): Promise<Reply> {
    return new Promise((resolve, reject) => {
      const left = sent.deadline - performance.now();
      if (sent.signal?.aborted) return reject(new WireError("aborted", "the caller gave up", sent.signal.reason));
      if (left <= 0) return reject(new WireError("late", "no time is left"));

      let stage: Stage = "connect";
      const path = this.#base.pathname.replace(/\/+$/, "") + sent.path;
      const headers: Record<string, string> = { Accept: "application/json", "Accept-Encoding": "identity", ...sent.headers };
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
      const abort = (): void => end(new WireError("aborted", "the caller gave up", sent.signal?.reason));
      sent.signal?.addEventListener("abort", abort, { once: true });

      let ended = false;
      function end(result: Reply | WireError): void {
        if (ended) return;
        ended = true;
        clearTimeout(timer);
        sent.signal?.removeEventListener("abort", abort);
        if (!(result instanceof WireError)) return resolve(result);
        request.destroy();
        reject(result);
      }
      function broken(cause: Error & { code?: string }): void {
        const fault = faultOf(stage, cause.code);
        end(new WireError(fault, `${fault === "lost" ? "the answer was lost" : "there is no connection"} (${cause.message})`, cause));
      }

      request.on("socket", (socket: Socket) => {
        if (!socket.connecting) stage = "sent";
        else if (this.#base.protocol === "http:") socket.once("connect", () => (stage = "sent"));
        else {
          socket.once("connect", () => (stage = "tls"));
          socket.once("secureConnect", () => (stage = "sent"));
        }
      });
      request.on("error", broken);
      request.on("response", (answer) => {
        const pieces: Buffer[] = [];
        let size = 0;
        answer.on("error", broken);
        answer.on("data", (piece: Buffer) => {
          size += piece.length;
          if (size > ANSWER_MAX) return end(new WireError("large", `the answer is over ${ANSWER_MAX} bytes`));
          pieces.push(piece);
        });
        answer.on("close", () => {
          if (!answer.complete) end(new WireError("lost", "the answer was cut"));
        });
        answer.on("end", () => {
          if (!answer.complete) return end(new WireError("lost", "the answer was cut"));
          try {
            const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(Buffer.concat(pieces));
            end({ status: answer.statusCode ?? 0, headers: answer.headers, text });
          } catch (cause) {
            end(new WireError("text", "the answer is not UTF-8", cause));
          }
        });
      });
      request.end(sent.body);
    });
  }
}

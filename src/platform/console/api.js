// api.js - calls of the public API, with the session of the person who is signed in.
//
// All addresses are relative to the page: a proxy may put the platform below any path. The session is a
// cookie that scripts cannot read. Changes carry the token of the session document.

const base = new URL("../", document.baseURI.split("#")[0]);

export const session = { document: null, known: false, ended: "", tenant: sessionStorage.getItem("tenant") || "" };

export class ApiError extends Error {
  constructor(status, body) {
    super(body.error || `The platform answered ${status}.`);
    this.status = status;
    this.code = body.code || "";
    this.body = body;
  }
}

// A number that a double would change, such as 12345678901234567890: shown as it was written.
export class Exact {
  constructor(text) { this.text = text; }
  toJSON() { return this.text; }
}

// Such numbers become texts with a prefix that nobody can guess, and then Exact.
const nonce = Array.from(crypto.getRandomValues(new Uint32Array(4)), n => n.toString(36)).join("");
const scalar = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

export function parse(text) {
  const marked = text.replace(scalar, found =>
    found[0] === '"' || String(Number(found)) === found ? found : `"${nonce}${found}"`);
  return JSON.parse(marked, (_, value) =>
    typeof value === "string" && value.startsWith(nonce) ? new Exact(value.slice(nonce.length)) : value);
}

const OF_NO_TENANT = /^(api\/v1\/sessions?\b|healthz$)/;

export function address(path, query = {}) {
  const url = new URL(path, base);
  for (const [name, value] of Object.entries(query))
    if (value !== undefined && value !== null && value !== "") url.searchParams.set(name, value);
  if (session.document && session.document.tenant_id === "*" && !OF_NO_TENANT.test(path))
    url.searchParams.set("tenant_id", session.tenant || "default");
  return url.href;
}

// Polls keep a session alive only while somebody is at the page.
const AWAY_AFTER_MS = 60000;
let touchedAt = Date.now();
for (const kind of ["pointerdown", "keydown", "scroll"])
  addEventListener(kind, () => { touchedAt = Date.now(); }, { capture: true, passive: true });

async function send(method, path, { query, body, headers = {}, background = false, signal } = {}) {
  const sent = { ...headers };
  if (body !== undefined) sent["Content-Type"] = "application/json";
  if (method !== "GET" && session.document) sent["Writ-CSRF-Token"] = session.document.csrf_token;
  if (background && Date.now() - touchedAt > AWAY_AFTER_MS) sent["Writ-Background"] = "1";
  let reply;
  try {
    reply = await fetch(address(path, query), {
      method, headers: sent, signal, credentials: "same-origin", cache: "no-store",
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (failure) {
    if (failure.name === "AbortError") throw failure;
    throw new ApiError(0, { code: "away", error: "The platform cannot be reached. Trying again." });
  }
  const text = await reply.text();
  let content = {};
  try {
    content = text ? parse(text) : {};
  } catch {
    content = { error: `The answer (${reply.status}) is not JSON: a proxy may have made it.` };
  }
  if (reply.ok) return { content, etag: reply.headers.get("ETag") };
  if (reply.status === 401 && path !== "api/v1/session") {
    session.ended = content.error || "The session has ended.";
    session.document = null;
    m.redraw();
  }
  throw new ApiError(reply.status, content);
}

export const call = async (...request) => (await send(...request)).content;
export const callTagged = send;

export async function whoAmI() {
  try {
    session.document = await call("GET", "api/v1/session");
  } catch (failure) {
    session.document = null;
    if (failure.status !== 401) session.ended = failure.message;
  }
  session.known = true;
  m.redraw();
}

export async function signIn(key, person) {
  session.document = await call("POST", "api/v1/session", { body: person ? { key, person } : { key } });
  session.ended = "";
}

export async function signOut() {
  const { end_session_url } = await call("DELETE", "api/v1/session");
  session.document = null;
  if (end_session_url) location.assign(end_session_url); // also at the identity provider
}

export function setTenant(name) {
  session.tenant = name;
  sessionStorage.setItem("tenant", name);
}

export const may = (...roles) => session.document !== null && roles.some(role => session.document.roles.includes(role));

// Does `work` now and again so long after each end of it, while the page is visible, until stopped.
export function repeat(milliseconds, work) {
  let timer = 0, stopped = false, running = false;
  const turn = async () => {
    clearTimeout(timer);
    if (stopped || running) return;
    running = true;
    await null; // never within a drawing
    try {
      if (!document.hidden) await work();
    } finally {
      running = false;
    }
    m.redraw();
    if (!stopped) timer = setTimeout(turn, milliseconds);
  };
  const shown = () => { if (!document.hidden) turn(); };
  document.addEventListener("visibilitychange", shown);
  turn();
  return {
    now: turn,
    stop() {
      stopped = true;
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", shown);
    },
  };
}

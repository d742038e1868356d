/* vectors.mjs [CASE…] - plays cases of schemas/client-vectors.json against this client, all at the same time.
 *
 * Prints a line of JSON for each case: {"case": NAME, "problems": […]}. With `-` it reads what to play from the standard input:
 * [{"dist": FOLDER, "case": NAME}, …], for other builds of the client. PYTHON is the python3 that serves the cases. */

import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { fileURLToPath, pathToFileURL } from "node:url";
import { isDeepStrictEqual } from "node:util";
import process from "node:process";

const here = new URL("../", import.meta.url);
const vectors = JSON.parse(readFileSync(new URL("../../schemas/client-vectors.json", here), "utf8"));
const cases = new Map(vectors.cases.map((one) => [one.name, one]));

function plays() {
  if (process.argv[2] === "-") return JSON.parse(readFileSync(0, "utf8"));
  const names = process.argv.length > 2 ? process.argv.slice(2) : [...cases.keys()];
  return names.map((name) => ({ dist: fileURLToPath(new URL("dist", here)), case: name }));
}

class Server {
  static async start() {
    const python = process.env.PYTHON ?? "python3";
    const program = spawn(python, [fileURLToPath(new URL("../vector_server.py", here))], { stdio: ["pipe", "pipe", "inherit"] });
    const line = await new Promise((resolve, reject) => {
      program.stdout.once("data", resolve);
      program.once("exit", (status) => reject(new Error(`the vector server ended with ${status}`)));
    });
    return new Server(program, JSON.parse(line).url);
  }
  constructor(program, url) {
    this.program = program;
    this.url = url;
  }
  async send(method, path, body) {
    const reply = await fetch(this.url + path, { method, body: body && JSON.stringify(body) });
    if (!reply.ok) throw new Error(`${method} ${path}: ${reply.status} ${await reply.text()}`);
    return reply.json();
  }
  stop() {
    this.program.stdin.end();
  }
}

function optionsOf({ key, deadline_ms, wait_ms, cooldown_ms, on_error, token }, { url, ca_file }) {
  return {
    url,
    key,
    deadlineMs: deadline_ms,
    waitMs: wait_ms,
    cooldownMs: cooldown_ms,
    onError: on_error,
    token: token && { scope: token.scope, ttlSeconds: token.ttl_seconds, maxUses: token.max_uses },
    caFile: ca_file,
    log: () => undefined,
  };
}

function membersOf({ actor, confidence, acting_for, resource, trace_id }) {
  return { actor, confidence, actingFor: acting_for, resource, traceId: trace_id };
}

/** What became of a call, in the words of the file. */
async function outcomeOf(running, writ) {
  try {
    const result = await running;
    return { outcome: result === "done" ? "ran" : `returned ${JSON.stringify(result)}` };
  } catch (error) {
    if (error instanceof writ.Denied) return { outcome: "denied", reason: error.reason };
    if (error instanceof writ.ReviewPending) return { outcome: "pending", review_id: error.reviewId };
    if (error instanceof writ.NoDecision) return { outcome: "no_decision", review_id: error.reviewId, message: error.message };
    return { outcome: `an unexpected ${error.stack}` };
  }
}

async function step(one, index, { client, writ, server, path, problems }) {
  const ran = [];
  for (const tool of vectors.tools) client.tools.set(tool, (args) => (ran.push({ tool, args }), "done"));
  const args = structuredClone(one.args);
  const running = client.run(one.tool, args, { ...membersOf(one), reviewId: one.do === "resume" ? one.review_id : undefined });
  const becoming = outcomeOf(running, writ);
  if (one.change_args) {
    await server.send("GET", `${path}/held`);
    for (const name of Object.keys(args)) delete args[name];
    Object.assign(args, one.change_args);
    await server.send("POST", `${path}/go`);
  }
  const became = await becoming;
  const wrong = (what) => problems.push(`step ${index + 1}: ${what}; ${JSON.stringify(became)}`);
  if (became.outcome !== one.outcome) wrong(`the outcome is not ${one.outcome}`);
  if (!isDeepStrictEqual(ran, one.ran ?? [])) wrong(`ran ${JSON.stringify(ran)}, expected ${JSON.stringify(one.ran ?? [])}`);
  if (one.reason !== undefined && became.reason !== one.reason) wrong(`the reason is not ${one.reason}`);
  if (one.do === "call" && one.review_id !== undefined && became.review_id !== one.review_id) wrong(`the review is not ${one.review_id}`);
  for (const call of ran) if (!isFrozen(call.args)) wrong("the tool may change its arguments");
}

function isFrozen(value) {
  return typeof value !== "object" || value === null || (Object.isFrozen(value) && Object.values(value).every(isFrozen));
}

async function play({ dist, case: name }, server) {
  const one = cases.get(name);
  if (!one) throw new Error(`no case is called ${name}`);
  const writ = await import(pathToFileURL(`${dist}/index.js`).href);
  const begun = await server.send("POST", "/plays", { case: name });
  const options = optionsOf({ ...vectors.client, ...one.client }, begun);
  const state = { client: new writ.Client(options), writ, server, path: `/plays/${begun.play}`, problems: [] };
  for (const [index, what] of one.steps.entries()) {
    if (what.do === "new_client") {
      state.client.close();
      state.client = new writ.Client(options);
    } else if (what.do === "pause") await new Promise((resolve) => setTimeout(resolve, what.ms));
    else await step(what, index, state);
  }
  state.client.close();
  const { problems } = await server.send("DELETE", state.path);
  console.log(JSON.stringify({ dist, case: name, problems: [...state.problems, ...problems] }));
}

const server = await Server.start();
try {
  const left = plays();
  const player = async () => {
    while (left.length > 0) await play(left.shift(), server);
  };
  await Promise.all(Array.from({ length: 24 }, player));
} finally {
  server.stop();
}

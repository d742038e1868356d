/* driver.mjs [DIST] - a program that a test in another language leads, line by line.
 *
 *     {"id": 1, "client": {OPTIONS}}                      makes a client, whose tools only record their calls
 *     {"id": 2, "run": [TOOL, {ARGS}, {OPTIONS}]}         {"id": 2, "outcome": "ran", "ran": [{"tool", "args"}], …}
 *     {"id": 3, "double": {RULES}}                        starts a test engine: {"id": 3, "url", "key"}
 *     {"id": 4, "resolve": ["approve", REVIEW]}           at the test engine
 *
 * Calls run beside each other. `ran` is what the tools recorded for the call; a call is known by its args' member "n", if it has one. */

import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";
import process from "node:process";

const dist = process.argv[2] ? pathToFileURL(`${process.argv[2]}/`) : new URL("../dist/", import.meta.url);
const { Client, Denied, NoDecision, ReviewPending } = await import(new URL("index.js", dist).href);
const { TestEngine } = await import(new URL("testing.js", dist).href);

let client;
let engine;
const ran = [];

function makeClient({ tools = [], ...options }) {
  client = new Client({ ...options, onReview: (review) => say({ review: review.reviewId, args: review.args }), log: (line) => say({ log: line }) });
  for (const tool of tools) client.tools.set(tool, (args) => (ran.push({ tool, args }), args));
}

async function run(tool, args, options = {}) {
  const from = ran.length;
  const own = () => ran.slice(args.n === undefined ? from : 0).filter((call) => args.n === undefined || call.args.n === args.n);
  try {
    await client.run(tool, args, options);
    return { outcome: "ran", ran: own() };
  } catch (error) {
    const { message, reason, rule, reviewId, outage, status, code } = error;
    const outcome = error instanceof Denied ? "denied" : error instanceof ReviewPending ? "pending" : error instanceof NoDecision ? "no_decision" : String(error.stack);
    return { outcome, ran: own(), message, reason, rule, reviewId, outage, status, code };
  }
}

async function perform(line) {
  if (line.client) return void makeClient(line.client);
  if (line.run) return run(...line.run);
  if (line.decide) return client.decide(...line.decide).then(({ members }) => ({ members }));
  if (line.double) {
    engine = await TestEngine.start(line.double);
    return { url: engine.url, key: engine.key };
  }
  if (line.resolve) return engine.reviews.find((one) => one.id === line.resolve[1])[line.resolve[0]]("carol");
  throw new Error(`unknown: ${JSON.stringify(line)}`);
}

function say(members) {
  process.stdout.write(`${JSON.stringify(members)}\n`);
}

for await (const text of createInterface({ input: process.stdin })) {
  const line = JSON.parse(text);
  perform(line).then((result) => say({ id: line.id, ...result }), (error) => say({ id: line.id, outcome: String(error.stack) }));
}
process.exit(0);

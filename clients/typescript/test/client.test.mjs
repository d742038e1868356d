/* What the vectors do not show: several calls at the same time, arguments that are no JSON, and the adapters' own rules. */

import assert from "node:assert/strict";
import { after, before, beforeEach, test } from "node:test";
import { Client, Denied, NoDecision, ReviewPending } from "../dist/index.js";
import { read } from "../dist/json.js";
import { gateToolCalls } from "../dist/langchain.js";
import { gateServer } from "../dist/mcp.js";
import { gateTools as gateFunctionTools } from "../dist/openai-agents.js";
import { TestEngine } from "../dist/testing.js";
import { gateTools, toolApproval } from "../dist/vercel.js";

let engine;
let writ;
let ran;

const record = (tool) => (args) => (ran.push([tool, args]), `${tool} is done`);

before(async () => {
  engine = await TestEngine.start({ pay: "allow", big: "human_review", write: { decision: "compute", safeTool: "save", safeArgs: { path: "/safe" } }, lost: { decision: "compute", safeTool: "nowhere", safeArgs: {} } });
});
beforeEach(() => {
  ran = [];
  engine.onReview = null;
  writ = engine.client({ deadlineMs: 2_000, waitMs: 2_000 });
  for (const tool of ["pay", "big", "write", "save"]) writ.tools.set(tool, record(tool));
});
after(() => engine.down());

// ---- several calls ----

test("two calls that resume one review at the same time run it once", async () => {
  const { reviewId } = await writ.run("big", { n: 1 }, { waitMs: 0 }).catch((error) => error);
  engine.reviews.at(-1).approve();
  const both = await Promise.allSettled([1, 2, 3].map(() => writ.run("big", { n: 1 }, { reviewId })));
  assert.equal(ran.length, 1);
  assert.equal(both.filter(({ status }) => status === "fulfilled").length, 1);
});

test("a redemption in doubt is finished by one of the calls that resume it", async () => {
  const one = engine.client({ deadlineMs: 300 });
  one.tools.set("big", record("big"));
  const { reviewId } = await one.run("big", { n: 4 }, { waitMs: 0 }).catch((error) => error);
  engine.reviews.at(-1).approve();
  engine.loses = (path) => path.endsWith("/redeem");
  await assert.rejects(one.run("big", { n: 4 }, { reviewId, ids: { toolCallId: "call_0", conversationId: "thread-7" } }), { outage: true, reviewId });
  engine.loses = null;
  assert.deepEqual([engine.reviews.at(-1).status, ran.length], ["redeemed", 0]);
  await Promise.allSettled([1, 2, 3].map((n) => one.run("big", { n: 4 }, { reviewId, ids: { toolCallId: `call_${n}` } })));
  assert.equal(ran.length, 1, "a model that calls again has another id for its call");
});

test("equal calls that wait for one review run it once", async () => {
  engine.onReview = (review) => review.approve();
  await Promise.allSettled([1, 2, 3].map(() => writ.run("big", { n: 2 })));
  assert.equal(ran.length, 1);
});

test("calls at the same time share one mint", async () => {
  const one = engine.client({ token: { scope: "*" } });
  one.tools.set("pay", record("pay"));
  await Promise.all(Array.from({ length: 20 }, () => one.run("pay", {})));
  assert.equal(ran.length, 20);
  assert.equal(engine.minted, 1);
});

test("an outage ends while calls wait, and one call alone finds out", async () => {
  const one = engine.client({ deadlineMs: 200, cooldownMs: 300 });
  one.tools.set("pay", record("pay"));
  await engine.down();
  await assert.rejects(one.run("pay", {}), { outage: true });
  await engine.up();
  await assert.rejects(one.run("pay", {}), /a moment ago/);
  await new Promise((resolve) => setTimeout(resolve, 350));
  const asked = engine.asked.length;
  const results = await Promise.allSettled([1, 2, 3].map(() => one.run("pay", {})));
  assert.deepEqual(results.map(({ status }) => status), ["fulfilled", "rejected", "rejected"]);
  assert.equal(engine.asked.length, asked + 1);
});

test("a caller gives up", async () => {
  const signal = AbortSignal.timeout(50);
  await assert.rejects(writ.run("big", { n: 3 }, { signal }), { name: "NoDecision", outage: false });
  const open = engine.client({ onError: "open", log: () => undefined });
  open.tools.set("pay", record("pay"));
  await assert.rejects(open.run("pay", {}, { signal: AbortSignal.abort() }), NoDecision);
  assert.equal(ran.length, 0);
});

test("a key that never comes ends at the deadline", async () => {
  const one = new Client({ url: engine.url, key: () => new Promise(() => undefined), deadlineMs: 50 });
  await assert.rejects(one.decide("pay", {}), NoDecision);
});

test("a framework's ids are sent where no member gives them, and no id stops a call", async () => {
  const sent = async (options, one = writ) => {
    await one.run("pay", {}, options);
    const { tool_call_id, conversation_id } = engine.asked.at(-1);
    return [tool_call_id, conversation_id];
  };
  const ids = { toolCallId: "call_1", conversationId: "thread-7" };
  assert.deepEqual(await sent({ ids }), ["call_1", "thread-7"]);
  assert.deepEqual(await sent({ ids: { toolCallId: 7 } }), ["7", undefined]);
  assert.deepEqual(await sent({ ids, conversationId: "own" }), ["call_1", "own"]);
  const named = engine.client({ members: { conversationId: "own" } });
  named.tools.set("pay", record("pay"));
  assert.deepEqual(await sent({ ids }, named), ["call_1", "own"]);
  assert.deepEqual(await sent({ ids: { toolCallId: "😀".repeat(300), conversationId: null } }), ["😀".repeat(256), undefined]);
});

// ---- arguments and answers ----

test("arguments that JSON would change are refused, and nothing is asked", async () => {
  const asked = engine.asked.length;
  const circle = {};
  circle.circle = circle;
  for (const value of [NaN, Infinity, 2 ** 53, 1n, new Date(0), new Map(), new Uint8Array(1), () => 1, Symbol("a"), "\ud800", circle, new (class A {})()]) {
    await assert.rejects(writ.run("pay", { value }), TypeError, String(typeof value));
  }
  await assert.rejects(writ.run("pay", { amount: 1 }, { confidense: 1 }), /confidense is no member of a request/);
  await assert.rejects(writ.run("pay", [1]), TypeError);
  assert.deepEqual([engine.asked.length, ran.length], [asked, 0]);
});

test("a tool gets a frozen copy, with a member named __proto__ as it was sent", async () => {
  const args = JSON.parse('{"__proto__": {"admin": true}, "list": [{"a": 1}]}');
  await writ.run("pay", args);
  const [, got] = ran[0];
  assert.deepEqual(Object.keys(got), ["__proto__", "list"]);
  assert.equal(got.admin, undefined);
  assert.throws(() => got.list.push(1), TypeError);
  assert.throws(() => (got.list[0].a = 2), TypeError);
});

test("JSON is read strictly", () => {
  assert.deepEqual(read(' {"a":[1,-0.5e1,"\\u00e9\\n",true,null,{}]} '), { a: [1, -5, "é\n", true, null, {}] });
  const wrong = ["", "{", "[1,]", '{"a":1,"a":2}', '{"a":1,"\\u0061":2}', "01", "+1", ".5", "1.", "NaN", "1e999", "9007199254740993", '"\\ud800"', '"\t"', '"\\x"', "nul", "[1] 2", "\ufeff1", "[".repeat(65) + "]".repeat(65)];
  for (const text of wrong) assert.throws(() => read(text), { name: "JsonError" }, text.slice(0, 20));
});

test("options that are wrong are named", () => {
  for (const options of [{ key: "" }, { key: "k", onError: "opne" }, { key: "k", deadlineMs: NaN }, { key: "k", url: "ftp://a" }, { key: "k", url: "http://u:p@a" }, { key: "k", members: { acting_for: "a" } }]) {
    assert.throws(() => new Client({ url: engine.url, ...options }), TypeError, JSON.stringify(options));
  }
});

test("a key is not shown by the client", async () => {
  const { inspect } = await import("node:util");
  assert.ok(!inspect(new Client({ key: "secret-key" }), { depth: 9, showHidden: true }).includes("secret-key"));
});

// ---- adapters ----

const vercelTools = () => ({ pay: { execute: record("pay") }, write: { execute: record("write") }, save: { execute: record("save") }, drop: { execute: record("drop") }, lost: { execute: record("lost") } });

test("vercel: tools run what is permitted, and throw otherwise", async () => {
  const tools = gateTools(writ, vercelTools());
  assert.equal(await tools.pay.execute({ amount: 1 }, { toolCallId: "c" }), "pay is done");
  assert.equal(engine.asked.at(-1).tool_call_id, "c");
  await tools.write.execute({ path: "/etc" }, {});
  await assert.rejects(tools.drop.execute({}, {}), Denied);
  await assert.rejects(tools.lost.execute({}, {}), NoDecision);
  assert.deepEqual(ran, [["pay", { amount: 1 }], ["save", { path: "/safe" }]]);
  assert.throws(() => gateTools(writ, { client_side: {} }), /has no execute/);
});

test("vercel: toolApproval approves an allow alone", async () => {
  const approve = toolApproval(writ);
  const types = [];
  for (const toolName of ["pay", "write", "drop", "lost"]) types.push((await approve({ toolCall: { toolName, toolCallId: "c", input: {} } })).type);
  assert.deepEqual(types, ["approved", "denied", "denied", "denied"]);
  assert.equal((await approve({ toolCall: undefined })).type, "denied");
  assert.equal((await approve({ toolCall: { toolName: "pay", input: { n: NaN } } })).type, "denied");
});

test("openai agents: a refusal is the tool's output", async () => {
  const own = Object.entries(vercelTools()).map(([name, { execute }]) => ({ type: "function", name, invoke: async (_, input) => execute(JSON.parse(input)) }));
  const tools = Object.fromEntries(gateFunctionTools(writ, own).map((tool) => [tool.name, tool]));
  assert.equal(await tools.pay.invoke({}, '{"amount":1}', { toolCall: { callId: "c" } }), "pay is done");
  assert.equal(engine.asked.at(-1).tool_call_id, "c");
  assert.equal(await tools.write.invoke({}, '{"path":"/etc"}'), "save is done");
  for (const [name, input] of [["drop", "{}"], ["lost", "{}"], ["pay", "not json"], ["pay", '{"a":1,"a":2}']]) assert.match(await tools[name].invoke({}, input), /^Not run: /);
  assert.deepEqual(ran, [["pay", { amount: 1 }], ["save", { path: "/safe" }]]);
  assert.throws(() => gateFunctionTools(writ, [{ type: "hosted_tool", name: "web" }]), /no function tool/);
});

test("langchain: a refusal is a message with the status error", async () => {
  class Message {
    constructor(fields) {
      Object.assign(this, fields);
    }
  }
  const own = Object.entries(vercelTools()).map(([name, { execute }]) => ({ name, invoke: execute }));
  const wrap = gateToolCalls(writ, Message, own);
  const runtime = { configurable: { thread_id: "thread-7" } };
  const call = (name, args = {}) => wrap({ toolCall: { name, args, id: "c" }, runtime, tool: own.find((one) => one.name === name) }, ({ tool, toolCall }) => tool.invoke(toolCall.args));
  assert.equal(await call("pay"), "pay is done");
  assert.deepEqual([engine.asked.at(-1).tool_call_id, engine.asked.at(-1).conversation_id], ["c", "thread-7"]);
  assert.equal(await call("write"), "save is done");
  assert.equal((await call("drop")).status, "error");
  assert.equal((await call("lost")).status, "error");
  assert.deepEqual(ran.map(([tool]) => tool), ["pay", "save"]);
  engine.rules.drop = { decision: "deny", reason: "x".repeat(5000) };
  assert.equal((await call("drop")).content, `Not run: ${"x".repeat(500)}`);
  writ = engine.client({ waitMs: 20 });
  const patient = gateToolCalls(writ, Message, own);
  assert.match((await patient({ toolCall: { name: "big", args: { n: 12 } } }, () => ran.push("big"))).content, /^Not run: A person .* Call again later, with the same arguments\.$/);
  delete engine.rules.drop;
  assert.equal(ran.length, 2);
});

test("mcp: callbacks are held, and the ways around them are closed", async () => {
  class Server {
    handlers = {};
    registerTool(name, _config, callback) {
      this.handlers[name] = callback;
      return { update: (changes) => (this.updated = changes) };
    }
    tool() {}
    get experimental() {
      return {};
    }
  }
  const server = gateServer(writ, new Server());
  const registered = server.registerTool("pay", { inputSchema: {} }, record("pay"));
  server.registerTool("write", {}, record("write"));
  server.registerTool("save", { inputSchema: {} }, record("save"));
  server.registerTool("drop", {}, record("drop"));
  assert.equal(await server.handlers.pay({ amount: 1 }, { requestId: 7 }), "pay is done");
  assert.equal(engine.asked.at(-1).tool_call_id, "7");
  assert.equal(await server.handlers.write({}), "save is done");
  await assert.rejects(server.handlers.drop({}), Denied);
  assert.deepEqual(ran, [["pay", { amount: 1 }], ["save", { path: "/safe" }]]);
  assert.throws(() => server.tool("a", () => 1), /not held by the gate/);
  assert.throws(() => server.experimental, /not held by the gate/);
  assert.throws(() => registered.update({ callback: () => 1 }), /not held by the gate/);
  registered.update({ enabled: false });
  assert.deepEqual(server.updated, { enabled: false });
});

test("a review without a vote can be resumed", async () => {
  const lines = [];
  writ = engine.client({ log: (line) => lines.push(line) });
  writ.tools.set("big", record("big"));
  const error = await writ.run("big", { n: 9 }, { waitMs: 50 }).catch((one) => one);
  assert.ok(error instanceof ReviewPending);
  assert.equal(engine.reviews.at(-1).id, error.reviewId);
  assert.match(lines[0].message, /^waiting for a person: /);
});

// The README's story, told by a client whose types openapi-typescript has made. There is no cast in it.
import createClient from "openapi-fetch";
import type { components, paths } from "./engine.js";

declare const process: { env: Record<string, string | undefined> };

const baseUrl = process.env["STORY_URL"] ?? "";
const client = (name: string) =>
  createClient<paths>({ baseUrl, headers: { Authorization: `Bearer ${process.env[name] ?? ""}` } });
const agent = client("STORY_AGENT");
const carol = client("STORY_CAROL");

function must<T>(value: T | undefined, what: string): T {
  if (value === undefined) throw new Error(`there is no ${what}`);
  return value;
}

const refund = (amount: number): components["schemas"]["AgentRequest"] => ({
  actor: "invoice_bot",
  action: "issue_refund",
  confidence: 0.95,
  args: { amount, lines: [{ n: 1 }] },
  resource: { type: "order", id: "17", properties: { paid: true } },
  context: { channel: "mail", acting_for: "erin" },
});

async function ask(body: components["schemas"]["AgentRequest"], key?: string) {
  const header = key === undefined ? {} : { "Idempotency-Key": key };
  const { data, error } = await agent.POST("/v1/agent/authorize", { body, params: { header } });
  return { data, error };
}

const small = must((await ask(refund(120), "call-ts")).data, "decision");
const again = must((await ask(refund(120), "call-ts")).data, "decision");
const large = must((await ask(refund(620))).data, "decision");
const id = must(large.review_id, "review");

const { data: page } = await carol.GET("/v1/queue/pending", { params: { query: { limit: 10 } } });
const listed = must(page, "page").items.some((item) => item.id === id && item.args?.["amount"] === 620);
const { data: approved } = await carol.POST("/v1/queue/{id}/approve", {
  params: { path: { id } },
  body: { resolved_by: "carol", note: "fine" },
});
const { data: waited } = await agent.GET("/v1/queue/{id}/wait", { params: { path: { id }, query: { timeout_ms: 5000 } } });
const { data: redeemed } = await agent.POST("/v1/queue/{id}/redeem", {
  params: { path: { id }, header: { "Idempotency-Key": "redeem-ts" } },
  body: refund(620),
});

const denied = must((await ask({ actor: "invoice_bot", action: "drop_table" })).data, "decision");
const sandboxed = must((await ask({ actor: "invoice_bot", action: "write_orders" })).data, "decision");
const wrong = must((await ask({ actor: "invoice_bot", action: "issue_refund", confidence: 2 })).error, "error");
const { data: batch } = await agent.POST("/v1/authorize/batch", {
  body: { requests: [refund(20), { action: "drop_table", actor: "invoice_bot" }] },
});
const { data: evaluated } = await agent.POST("/access/v1/evaluation", {
  body: {
    subject: { type: "agent", id: "invoice_bot" },
    action: { name: "issue_refund", properties: { amount: 30 } },
    resource: { type: "order", id: "18" },
    context: { confidence: 0.95 },
  },
});
const { data: health } = await agent.GET("/healthz");

console.log(
  JSON.stringify({
    small: small.decision,
    again: again.replayed,
    large: large.decision,
    listed,
    approved: must(approved, "review").status,
    waited: must(waited, "review").status,
    redeemed: must(redeemed, "redemption").decision,
    denied: denied.rule,
    safe: [sandboxed.safe_tool, sandboxed.safe_args?.["sandboxed"]],
    wrong: [wrong.code, wrong.field],
    batch: must(batch, "batch").decisions.map((one) => ("decision" in one ? one.decision : one.code)),
    evaluated: must(evaluated, "evaluation").decision,
    healthy: must(health, "health").service,
  }),
);

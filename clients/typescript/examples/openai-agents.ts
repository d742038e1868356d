/* An agent with OpenAI's Agents SDK. The lines that end in "writ" put it behind writ. */

import { Agent, OpenAIProvider, Runner, tool } from "@openai/agents";
import { Client } from "writ-client"; // writ
import { gateTools } from "writ-client/openai-agents"; // writ
import { z } from "zod";
import { baseURL, dropTable, issueRefund, prompt, writeFile, writeOrders } from "./tools.js";

const tools = [
  tool({ name: "issue_refund", description: "Refunds an amount", parameters: z.object({ amount: z.number() }), execute: issueRefund }),
  tool({ name: "drop_table", description: "Drops a table", parameters: z.object({ table: z.string() }), execute: dropTable }),
  tool({ name: "write_orders", description: "Writes orders", parameters: z.object({ path: z.string() }), execute: writeOrders }),
  tool({ name: "write_file", description: "Writes a file", parameters: z.object({ path: z.string(), sandboxed: z.boolean() }), execute: writeFile }),
];

const writ = new Client(); // writ
const agent = new Agent({
  name: "invoice_bot",
  model: "mock",
  tools: gateTools(writ, tools), // writ
});
const runner = new Runner({ modelProvider: new OpenAIProvider({ baseURL, apiKey: "none", useResponses: false }), tracingDisabled: true });
console.log((await runner.run(agent, prompt)).finalOutput);

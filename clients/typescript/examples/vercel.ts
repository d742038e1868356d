/* An agent with Vercel's AI SDK. The lines that end in "writ" put it behind writ. */

import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, stepCountIs, tool } from "ai";
import { Client } from "writ-client"; // writ
import { gateTools } from "writ-client/vercel"; // writ
import { z } from "zod";
import { baseURL, dropTable, issueRefund, prompt, writeFile, writeOrders } from "./tools.js";

const tools = {
  issue_refund: tool({ description: "Refunds an amount", inputSchema: z.object({ amount: z.number() }), execute: issueRefund }),
  drop_table: tool({ description: "Drops a table", inputSchema: z.object({ table: z.string() }), execute: dropTable }),
  write_orders: tool({ description: "Writes orders", inputSchema: z.object({ path: z.string() }), execute: writeOrders }),
  write_file: tool({ description: "Writes a file", inputSchema: z.object({ path: z.string(), sandboxed: z.boolean() }), execute: writeFile }),
};

const writ = new Client(); // writ
const { text } = await generateText({
  model: createOpenAICompatible({ name: "local", baseURL })("mock"),
  prompt,
  tools: gateTools(writ, tools), // writ
  stopWhen: stepCountIs(5),
});
console.log(text);

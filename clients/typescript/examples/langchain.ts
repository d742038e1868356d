/* An agent with LangChain. The lines that end in "writ" put it behind writ. */

import { ChatOpenAI } from "@langchain/openai";
import { createAgent, createMiddleware, tool, ToolMessage } from "langchain";
import { Client } from "writ-client"; // writ
import { gateToolCalls } from "writ-client/langchain"; // writ
import { z } from "zod";
import { baseURL, dropTable, issueRefund, prompt, writeFile, writeOrders } from "./tools.js";

const tools = [
  tool(issueRefund, { name: "issue_refund", description: "Refunds an amount", schema: z.object({ amount: z.number() }) }),
  tool(dropTable, { name: "drop_table", description: "Drops a table", schema: z.object({ table: z.string() }) }),
  tool(writeOrders, { name: "write_orders", description: "Writes orders", schema: z.object({ path: z.string() }) }),
  tool(writeFile, { name: "write_file", description: "Writes a file", schema: z.object({ path: z.string(), sandboxed: z.boolean() }) }),
];

const writ = new Client(); // writ
const gate = createMiddleware({ name: "writ", wrapToolCall: gateToolCalls(writ, ToolMessage, tools) }); // writ
const agent = createAgent({
  model: new ChatOpenAI({ model: "mock", apiKey: "none", configuration: { baseURL } }),
  tools,
  middleware: [gate], // writ
});
const { messages } = await agent.invoke({ messages: [{ role: "user", content: prompt }] }, { configurable: { thread_id: "refunds-7" } });
console.log(messages.at(-1)?.text);

/* An MCP server whose tools are behind writ. The lines that end in "writ" put them there. */

import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { Client } from "writ-client"; // writ
import { gateServer } from "writ-client/mcp"; // writ
import { z } from "zod";
import { dropTable, issueRefund, writeFile, writeOrders } from "./tools.js";

const writ = new Client(); // writ
const server = gateServer(writ, new McpServer({ name: "orders", version: "1.0.0" })); // writ

const said = (text: string) => ({ content: [{ type: "text" as const, text }] });
server.registerTool("issue_refund", { inputSchema: { amount: z.number() } }, (args) => said(issueRefund(args)));
server.registerTool("drop_table", { inputSchema: { table: z.string() } }, (args) => said(dropTable(args)));
server.registerTool("write_orders", { inputSchema: { path: z.string() } }, (args) => said(writeOrders(args)));
server.registerTool("write_file", { inputSchema: { path: z.string(), sandboxed: z.boolean() } }, (args) => said(writeFile(args)));

await server.connect(new StdioServerTransport());

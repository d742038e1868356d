/* What the agents can do. A real agent would call its own systems here. */

import { appendFileSync } from "node:fs";

function record(tool: string, args: object): string {
  appendFileSync("ledger.jsonl", `${JSON.stringify({ tool, args })}\n`);
  return `${tool} is done`;
}

export const issueRefund = (args: { amount: number }): string => record("issue_refund", args);
export const dropTable = (args: { table: string }): string => record("drop_table", args);
export const writeOrders = (args: { path: string }): string => record("write_orders", args);
export const writeFile = (args: { path: string; sandboxed: boolean }): string => record("write_file", args);

export const baseURL = process.env["MODEL_URL"] ?? "http://127.0.0.1:8000/v1";
export const prompt = process.argv[2] ?? "A customer wants 20 back.";

/* vercel.ts - the tools of Vercel's AI SDK, versions 6 and 7, behind the gate.
 *
 *     generateText({ model, prompt, tools: gateTools(writ, tools) })
 *
 * The gate is in `execute`, because that function alone decides what runs: it gets the permitted arguments, or it throws, and the
 * model reads why. `toolApproval` of version 7 cannot replace arguments, and runs the tool after a word that it does not know. */

import type { Client, Members } from "./client.js";
import { Refused } from "./errors.js";
import type { JsonObject } from "./json.js";

interface VercelTool {
  readonly execute?: ((input: any, options: any) => unknown) | undefined;
}

interface Execution {
  readonly toolCallId?: string;
  readonly abortSignal?: AbortSignal;
}

/** The same tools. Each runs what writ permits, which for a compute may be another one of them. */
export function gateTools<T extends { readonly [name: string]: object }>(client: Client, tools: T, members: Members = {}): T {
  const own = new Map<string, VercelTool>(Object.entries(tools));
  for (const [name, tool] of own) {
    if (typeof tool.execute !== "function") throw new TypeError(`${name} has no execute: this program does not run it, so the gate cannot hold it`);
  }
  const gated = [...own].map(([name, tool]) => {
    const execute = async (input: object, options: Execution = {}): Promise<unknown> => {
      const call = await client.permit(name, input, { ...members, ids: { toolCallId: options.toolCallId }, signal: options.abortSignal, tools: own });
      return last(own.get(call.tool)?.execute?.(call.args, options));
    };
    return [name, { ...tool, execute }];
  });
  return Object.fromEntries(gated) as T;
}

/** The last output of a tool that has several. */
async function last(output: unknown): Promise<unknown> {
  if (typeof output !== "object" || output === null || !(Symbol.asyncIterator in output)) return output;
  let latest: unknown;
  for await (const one of output as AsyncIterable<unknown>) latest = one;
  return latest;
}

export interface Approval {
  readonly type: "approved" | "denied";
  readonly reason: string;
}

/** For `toolApproval` of version 7: tools that other programs run, which gateTools cannot hold. Only an allow approves, since
 * arguments cannot be replaced here. */
export function toolApproval(client: Client, members: Members = {}): (asked: { readonly toolCall: unknown }) => Promise<Approval> {
  return async ({ toolCall }) => {
    try {
      const { toolName, toolCallId, input } = toolCall as { toolName: string; toolCallId?: string; input: JsonObject };
      const { decision } = await client.permit(toolName, input, { ...members, ids: { toolCallId } });
      if (decision === null || decision.word === "allow") return { type: "approved", reason: decision?.reason ?? "" };
      return { type: "denied", reason: "Only another call is permitted in its place." };
    } catch (error) {
      return { type: "denied", reason: error instanceof Refused ? error.message : "There is no decision." };
    }
  };
}

/* text.ts - what a model reads where its call did not run. */

import { ReviewPending } from "./errors.js";

const REASON_MAX = 500;

export function forModel(error: unknown): string {
  const reason = error instanceof Error ? error.message : "There is no decision.";
  const text = `Not run: ${reason.slice(0, REASON_MAX)}`;
  return error instanceof ReviewPending ? `${text} Call again later, with the same arguments.` : text;
}

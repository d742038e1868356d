/* time.ts - pauses and deadlines, by performance.now(). */

import { NoDecision } from "./errors.js";

const BACKOFF_FIRST_MS = 50;
const BACKOFF_MAX_MS = 2_000;
export const TIMER_MAX_MS = 2 ** 31 - 1;

/** How long to pause after so many earlier failures. */
export function backoff(failures: number): number {
  return Math.min(BACKOFF_FIRST_MS * 2 ** failures, BACKOFF_MAX_MS) * (0.75 + Math.random() / 2);
}

/** Pauses, but not beyond this time. */
export async function pause(ms: number, until: number, signal: AbortSignal | undefined): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const over = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, Math.max(0, Math.min(ms, until - performance.now(), TIMER_MAX_MS)));
  });
  try {
    await within(over, Infinity, signal);
  } finally {
    clearTimeout(timer);
  }
}

/** A value, if it comes before the deadline. */
export async function within<T>(value: T | Promise<T>, deadline: number, signal: AbortSignal | undefined): Promise<T> {
  if (!(value instanceof Promise)) return value;
  let timer: NodeJS.Timeout | undefined;
  let abort = (): void => undefined;
  const end = new Promise<never>((_, reject) => {
    abort = () => reject(new NoDecision("The caller has given up.", { cause: signal?.reason }));
    if (signal?.aborted) abort();
    signal?.addEventListener("abort", abort);
    const left = deadline - performance.now();
    if (left <= TIMER_MAX_MS) timer = setTimeout(() => reject(new NoDecision("There was no credential in time.", { outage: true })), left);
  });
  try {
    return await Promise.race([value, end]);
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", abort);
  }
}

/* time.ts - pauses and deadlines, by performance.now(). */
import { NoDecision } from "./errors.js";
const BACKOFF_FIRST_MS = 50;
const BACKOFF_MAX_MS = 2_000;
export const TIMER_MAX_MS = 2 ** 31 - 1;
/** How long to pause after so many earlier failures. */
export function backoff(failures) {
    return Math.min(BACKOFF_FIRST_MS * 2 ** failures, BACKOFF_MAX_MS) * (0.75 + Math.random() / 2);
}
/** Pauses, but not beyond this time. */
export async function pause(ms, until, signal) {
    let timer;
    const over = new Promise((resolve) => {
        timer = setTimeout(resolve, Math.max(0, Math.min(ms, until - performance.now(), TIMER_MAX_MS)));
    });
    try {
        await within(over, Infinity, signal);
    }
    finally {
        clearTimeout(timer);
    }
}
/** A value, if it comes before the deadline. */
export async function within(value, deadline, signal) {
    if (!(value instanceof Promise))
        return value;
    let timer;
    let abort = () => undefined;
    const end = new Promise((_, reject) => {
        abort = () => reject(new NoDecision("The caller has given up.", { cause: signal?.reason }));
        if (signal?.aborted)
            abort();
        signal?.addEventListener("abort", abort);
        const left = deadline - performance.now();
        if (left <= TIMER_MAX_MS)
            timer = setTimeout(() => reject(new NoDecision("There was no credential in time.", { outage: true })), left);
    });
    try {
        return await Promise.race([value, end]);
    }
    finally {
        clearTimeout(timer);
        signal?.removeEventListener("abort", abort);
    }
}

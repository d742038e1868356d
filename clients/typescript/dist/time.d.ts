export declare const TIMER_MAX_MS: number;
/** How long to pause after so many earlier failures. */
export declare function backoff(failures: number): number;
/** Pauses, but not beyond this time. */
export declare function pause(ms: number, until: number, signal: AbortSignal | undefined): Promise<void>;
/** A value, if it comes before the deadline. */
export declare function within<T>(value: T | Promise<T>, deadline: number, signal: AbortSignal | undefined): Promise<T>;

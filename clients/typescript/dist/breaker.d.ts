export declare class Breaker {
    #private;
    constructor(ms: number);
    call<T>(ask: () => Promise<T>): Promise<T>;
}

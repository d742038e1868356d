export declare function forModel(error: unknown): string;

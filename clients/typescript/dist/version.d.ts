/** The name and the version of the package are in package.json, and nowhere else. */
export declare const VERSION: string;

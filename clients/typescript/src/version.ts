import { createRequire } from "node:module";

/** The name and the version of the package are in package.json, and nowhere else. */
export const VERSION = (createRequire(import.meta.url)("../package.json") as { version: string }).version;

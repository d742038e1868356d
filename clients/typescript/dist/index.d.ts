export { Client, defaultClient, gate, guard } from "./client.js";
export type { Call, CallOptions, ClientOptions, Guarded, LogLine, Members, PendingReview, Tool } from "./client.js";
export type { Decision, ReviewStatus, Verdict } from "./answer.js";
export { Denied, NoDecision, Refused, ReviewPending } from "./errors.js";
export type { Json, JsonObject } from "./json.js";
export type { TokenOptions } from "./tokens.js";

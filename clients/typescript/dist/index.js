export { Client, defaultClient, gate, guard } from "./client.js";
export { Denied, NoDecision, Refused, ReviewPending } from "./errors.js";

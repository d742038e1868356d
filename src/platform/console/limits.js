// limits.js - what a request would find left of its limits: a dry run, when somebody asks for it.
import { call } from "./api.js";
import { count, shown } from "./text.js";
import { alert, verdict } from "./widgets.js";

const requestOf = one => Object.fromEntries(Object.entries({
  [one.user_id ? "user_id" : "actor"]: one.user_id || one.actor, action: one.action, args: one.args, context: one.context, acting_for: one.acting_for,
  resource: one.resource && typeof one.resource === "object" ? { ...one.resource, properties: one.resource_properties } : one.resource,
  confidence: one.confidence_score ?? one.confidence,
}).filter(([, value]) => value !== undefined));

const dryRun = one => call("POST", one.user_id ? "v1/authorize" : "v1/agent/authorize", { query: { dry_run: "true" }, body: requestOf(one) });

// A dry run has the limits of what it would count.
const NONE = { human_review: "its limits are checked when the approval is used", deny: "a denial counts nothing" };

// For `attrs.requests`, reviews or events.
export const Limits = {
  oninit({ state }) { Object.assign(state, { found: null, busy: false }); },
  view({ state, attrs: { requests } }) {
    const look = async () => {
      state.busy = true;
      state.found = await Promise.all(requests.map(one =>
        dryRun(one).then(decision => ({ one, decision }), failure => ({ one, failure }))));
      state.busy = false;
      m.redraw();
    };
    return [m("button[type=button]", { disabled: state.busy, onclick: look }, "Show what is left of the limits"),
      m("div[role=status]", state.found && m("ul.plain", state.found.map(({ one, decision, failure }) => m("li", m("b", shown(one.action)), " now: ",
        failure ? alert(failure) : [verdict(decision.decision), " ", (decision.limits || []).length === 0 ? m("span.quiet", NONE[decision.decision] || "no limit counts it")
          : m("ul", decision.limits.map(limit => m("li", shown(`${limit.policy}: ${limit.rule}, per ${limit.per.replace("_", " ")}: `),
            [limit.left === undefined ? null : `${count(limit.left, "request")} left`, limit.left_sum === undefined ? null : `${limit.left_sum} of the sum left`]
              .filter(Boolean).join(", "))))]))))];
  },
};

// widgets.js - small pieces that several screens have.
import { relative, shown, time } from "./text.js";

export const go = hash => { location.hash = hash; };
export const to = (...steps) => "#/" + steps.map(encodeURIComponent).join("/");

export const link = (steps, ...content) => m("a", { href: to(...steps) }, ...content);

export const alert = failure => failure
  ? m("p.alert[role=alert]", shown(failure.message), failure.code ? m("span.quiet", ` (${failure.code})`) : null) : null;

export const field = (label, input, hint) => m("label.field", m("span.label", label), input, hint ? m("span.quiet", hint) : null);

export const claim = (...content) => [content, " ", m("span.claim", { title: "The agent says so. Nobody has checked it." }, "claimed")];

export const until = text => m("time", { datetime: text, title: text, class: Date.parse(text) - Date.now() < 300000 ? "soon" : "" }, relative(text));

const STATES = {
  pending: ["waiting", "wait"], approved: ["approved", "good"], redeemed: ["done", "good"], denied: ["denied", "bad"],
  expired: ["expired", "quiet"], cancelled: ["cancelled", "quiet"],
};

export function stateOf(review) {
  if (review.status === "expired" && review.approval_expires_at) return ["lapsed", "quiet"];
  return STATES[review.status] || [review.status, "quiet"];
}

export function badge([word, kind]) { return m(`span.badge.${kind}`, word); }

const VERDICTS = { allow: "good", deny: "bad", human_review: "wait", compute: "wait" };
export const verdict = word => word ? badge([word === "human_review" ? "review" : word, VERDICTS[word] || "quiet"]) : null;

export const resourceOf = resource => !resource ? "" : typeof resource === "string" ? resource
  : [resource.type, resource.id].filter(Boolean).join(":");

export const subjectOf = review => review.kind === "user" ? review.user_id : review.actor;

// "invoice_bot wants to issue_refund on order:18", of a review or an event
export function sentence(one) {
  const resource = resourceOf(one.resource);
  return [m("b", shown(one.actor || one.user_id || "somebody")), " wants to ", m("b", shown(one.action || "do something")),
    resource ? [" on ", m("b", shown(resource))] : null];
}

// A dialog that takes the focus and gives it back.
export const Dialog = {
  oncreate({ dom }) { dom.showModal(); },
  view: ({ attrs, children }) => m("dialog", {
    "aria-label": attrs.title,
    oncancel(event) { event.preventDefault(); attrs.close(); },
  }, m("h2", attrs.title), children),
};

export function eventLine(event) {
  const kind = event.kind === "decision" ? "" : event.kind.replace(".", " ");
  return m("li.event", m("span.when", time(event.timestamp)), m("span.what",
    verdict(event.decision), kind ? [" ", m("span.kind", kind)] : null, " ",
    event.actor || event.user_id ? m("b", shown(event.actor || event.user_id)) : null, " ",
    event.action ? shown(event.action) : null, resourceOf(event.resource) ? [" on ", shown(resourceOf(event.resource))] : null,
    event.mode === "dry_run" ? m("span.quiet", " (dry run)") : null,
    event.resolved_by ? [" by ", shown(event.resolved_by)] : null),
    event.trace_id ? m("span.more", link(["trace", event.trace_id], "trace", m("span.unseen", ` ${event.trace_id}`))) : null);
}

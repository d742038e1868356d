// trace.js - what happened under one trace id, in order.
import { address, call } from "./api.js";
import { count, pathView, parts, shown, time } from "./text.js";
import { alert, eventLine, field, go, link, to } from "./widgets.js";

export const Details = {
  view: ({ attrs: { event } }) => m("details", m("summary", "All of it"), m(".parts", parts(event).map((part, at) =>
    m(".part", { key: at, class: part.at ? "goes-on" : "" }, m(".path", pathView(part.path)), m(".value", shown(part.text)))))),
};

const Step = {
  view: ({ attrs: { event } }) => m("li.step", m(".head", eventLine({ ...event, trace_id: undefined }).children),
    event.reason ? m("p", shown(event.reason)) : null,
    m("p.quiet", [event.rule ? ["rule ", shown(event.rule)] : null, event.policy_name ? [" of ", shown(event.policy_name), ` version ${event.policy_version}`] : null]),
    event.resolution_note ? m("blockquote", shown(event.resolution_note)) : null,
    event.review_id ? m("p", link(["review", event.review_id], "the review")) : null, m(Details, { event })),
};

export const Trace = {
  title: () => "Trace",
  oninit({ state, attrs }) {
    Object.assign(state, { id: attrs.steps[1] || "", events: null, failure: null, wanted: "" });
    if (state.id)
      call("GET", `api/v1/audit/trace/${encodeURIComponent(state.id)}`)
        .then(found => { state.events = found.events; state.isCut = "next_cursor" in found; }, failure => { state.failure = failure; }).then(m.redraw);
  },
  view: ({ state }) => m("main#main", m("h1[tabindex=-1]", "Trace ", state.id ? m("code", shown(state.id)) : null),
    m("form", { onsubmit: event => { event.preventDefault(); if (state.wanted) go(to("trace", state.wanted.trim())); } },
      field("Trace id", m("input[type=search]", { id: "trace", value: state.wanted, oninput: event => { state.wanted = event.target.value; } })), m("button", "Show")),
    alert(state.failure),
    state.events === null ? null : [
      m("p[role=status]", state.events.length ? `${count(state.events.length, "event")}${state.isCut ? ", the first of more" : ""}, oldest first. `
        : "No events: the id is unknown, or its records are not stored yet. ",
      m("a", { href: address(`api/v1/audit/trace/${encodeURIComponent(state.id)}`), target: "_blank", rel: "noopener" }, "As JSON")),
      m("ol.plain.timeline", state.events.map(event => m(Step, { key: event.id, event }))),
    ]),
};

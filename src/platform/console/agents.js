// agents.js - agents: what they did, what became of it, their tokens; the kill switch.
import { call, may } from "./api.js";
import { count, relative, shown, time } from "./text.js";
import { alert, badge, eventLine, field, link, until, verdict } from "./widgets.js";
import { Limits } from "./limits.js";

const OUTCOMES = ["allow", "compute", "human_review", "deny"];
const LATEST = 500, ACTIONS = 5;

const path = name => encodeURIComponent(name);

// [{actor, last, allow, deny, …}] of events, the latest first.
function activity(events) {
  const found = new Map();
  for (const event of events) {
    if (!event.actor || event.mode === "dry_run") continue;
    if (!found.has(event.actor)) found.set(event.actor, { actor: event.actor, last: event.timestamp });
    const one = found.get(event.actor);
    one[event.decision] = (one[event.decision] || 0) + 1;
  }
  return [...found.values()];
}

const suspended = () => may("admin") ? call("GET", "v1/actors", { query: { limit: 500 } }).then(page => page.actors) : Promise.resolve([]);

const List = {
  oninit({ state }) {
    Object.assign(state, { rows: null, stopped: [], failure: null });
    Promise.all([call("GET", "api/v1/audit", { query: { kind: "decision", limit: LATEST } }), suspended()]).then(([page, stopped]) => {
      state.stopped = stopped;
      state.rows = activity(page.events);
      for (const one of stopped) if (!state.rows.some(row => row.actor === one.actor)) state.rows.push({ actor: one.actor });
    }, failure => { state.failure = failure; }).then(m.redraw);
  },
  view: ({ state }) => m("main#main", m("h1[tabindex=-1]", "Agents"), alert(state.failure),
    m("p.quiet[role=status]", state.rows === null ? (state.failure ? "" : "Loading…") : `${count(state.rows.length, "agent")} in the latest ${LATEST} decisions.`),
    state.rows && state.rows.length ? m(".scroll[tabindex=0][role=group]", { "aria-label": "Table of agents" }, m("table",
      m("thead", m("tr", ["Agent", "Allow", "Safe call", "Review", "Deny", "Last"].map((title, at) => m("th[scope=col]", { class: at > 0 && at < 5 ? "number" : "" }, title)))),
      m("tbody", state.rows.map(row => m("tr", { key: row.actor }, m("th[scope=row]", link(["agents", row.actor], shown(row.actor)),
        state.stopped.some(one => one.actor === row.actor) ? [" ", badge(["suspended", "bad"])] : null),
      OUTCOMES.map(word => m("td.number", row[word] || 0)), m("td", row.last ? relative(row.last) : "")))))) : null),
};

const Tokens = {
  oninit({ state, attrs: { actor } }) {
    Object.assign(state, { tokens: null, failure: null });
    state.load = () => call("GET", "v1/tokens", { query: { actor, active: "true", limit: 100 } })
      .then(page => { state.tokens = page.tokens; }, failure => { state.failure = failure; }).then(m.redraw);
    state.load();
  },
  view: ({ state }) => m("section", m("h2", "Tokens in force"), alert(state.failure),
    state.tokens === null ? null : state.tokens.length === 0 ? m("p.quiet", "None.") : m("ul.plain.events", state.tokens.map(token => m("li", { key: token.token_id },
      m("code", token.token_id), " for ", m("b", shown(token.scope)), token.acting_for ? [", acting for ", shown(token.acting_for)] : null, ", ends ", until(token.expires_at),
      token.uses_left === undefined ? null : `, ${count(token.uses_left, "use")} left`, " ",
      m("button[type=button]", { "aria-label": `Revoke ${token.token_id}`, onclick: () => call("DELETE", `v1/tokens/${path(token.token_id)}`).then(state.load, failure => { state.failure = failure; }) }, "Revoke"))))),
};

const One = {
  oninit({ state, attrs: { actor } }) {
    Object.assign(state, { events: null, stopped: undefined, failure: null, reason: "", done: "" });
    state.load = () => Promise.all([call("GET", "api/v1/audit", { query: { actor, limit: 100 } }), suspended()]).then(([page, stopped]) => {
      state.events = page.events;
      state.stopped = stopped.find(one => one.actor === actor);
    }, failure => { state.failure = failure; }).then(m.redraw);
    state.change = what => call("POST", `v1/actors/${path(actor)}/${what}`, { body: state.reason.trim() ? { reason: state.reason.trim() } : {} })
      .then(() => { state.reason = ""; state.failure = null; state.done = what === "suspend" ? "Suspended: every request is denied from now on." : "Resumed. Its tokens from before stay ended."; return state.load(); },
        failure => { state.failure = failure; }).then(m.redraw);
    state.load();
  },
  view({ state, attrs: { actor } }) {
    const decisions = (state.events || []).filter(event => event.kind === "decision" && event.mode !== "dry_run");
    const [sums] = activity(decisions);
    const kinds = decisions.filter((event, at) => decisions.findIndex(other => other.action === event.action) === at).slice(0, ACTIONS);
    return m("main#main", m("p.back", link(["agents"], "‹ Agents")),
      m("h1[tabindex=-1]", shown(actor), state.stopped ? [" ", badge(["suspended", "bad"])] : null), alert(state.failure),
      m("p[role=status]", state.done),
      state.stopped ? m("p", "Suspended ", time(state.stopped.suspended_at), state.stopped.suspended_by ? [" by ", shown(state.stopped.suspended_by)] : null,
        state.stopped.reason ? [": ", shown(state.stopped.reason)] : null) : null,
      may("admin") && state.events !== null ? m("form", { onsubmit: event => { event.preventDefault(); state.change(state.stopped ? "resume" : "suspend"); } },
        field("Reason", m("input[type=text][required][maxlength=1000]", { id: "reason", value: state.reason, oninput: event => { state.reason = event.target.value; } }),
          state.stopped ? "" : "Its tokens end for ever, and its reviews end."),
        m(`button.${state.stopped ? "good" : "bad"}`, state.stopped ? "Resume" : "Suspend")) : null,
      sums ? m("section", m("h2", "Outcomes of the latest decisions"), m("p", OUTCOMES.filter(word => sums[word]).map(word => [verdict(word), ` ${sums[word]} `]))) : null,
      kinds.length ? m("section", m("h2", "Limits"), m(Limits, { requests: kinds })) : null,
      may("admin") ? m(Tokens, { actor }) : null,
      m("section", m("h2", "Activity"), state.events === null ? null : state.events.length === 0 ? m("p.quiet", "Nothing is recorded.")
        : m("ul.plain.events", state.events.map(eventLine))));
  },
};

export const Agents = {
  title: () => "Agents",
  view: ({ attrs: { steps } }) => steps[1] ? m(One, { actor: steps[1] }) : m(List),
};

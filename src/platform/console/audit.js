// audit.js - search in the audit trail; export of what was found.
import { call } from "./api.js";
import { count } from "./text.js";
import { alert, eventLine, field } from "./widgets.js";
import { Details } from "./trace.js";

const FIELDS = [["actor", "Agent"], ["user_id", "Person"], ["action", "Action"], ["rule", "Rule"], ["trace_id", "Trace id"], ["kind", "Kind"]];
const EXPORT_MAX = 20000;

const inUtc = text => text ? new Date(text).toISOString() : "";

export const Audit = {
  title: () => "Audit",
  oninit({ state }) {
    Object.assign(state, { query: { decision: "" }, events: [], next: 0, failure: null, busy: true, note: "" });
    state.asked = () => ({ ...state.query, from: inUtc(state.query.from), to: inUtc(state.query.to) });
    state.search = async more => {
      state.busy = true;
      try {
        const found = await call("GET", "api/v1/audit", { query: { ...state.asked(), limit: 50, cursor: more ? state.next : undefined } });
        state.events = more ? [...state.events, ...found.events] : found.events;
        state.next = found.next_cursor;
        state.failure = null;
      } catch (failure) {
        state.failure = failure;
      }
      state.busy = false;
      m.redraw();
    };
    // One event a line, each with its number; the newest first.
    state.save = async () => {
      const lines = [];
      let cursor = 0;
      try {
        do {
          const found = await call("GET", "api/v1/audit", { query: { ...state.asked(), limit: 500, cursor: cursor || undefined } });
          lines.push(...found.events.map(event => JSON.stringify(event) + "\n"));
          cursor = found.next_cursor;
          state.note = `${lines.length} so far`;
          m.redraw();
        } while (cursor && lines.length < EXPORT_MAX);
      } catch (failure) {
        state.failure = failure;
        return m.redraw();
      }
      const url = URL.createObjectURL(new Blob(lines, { type: "application/x-ndjson" }));
      Object.assign(document.createElement("a"), { href: url, download: "audit.ndjson" }).click();
      setTimeout(() => URL.revokeObjectURL(url), 10000);
      state.note = cursor ? `The newest ${count(lines.length, "event")}; for all of them: writ audit export.` : `${count(lines.length, "event")} saved.`;
      m.redraw();
    };
    state.search(false);
  },
  view({ state }) {
    const input = (name, type = "search") => m(`input[type=${type}]`, { id: name, value: state.query[name] || "", oninput: event => { state.query[name] = event.target.value; } });
    return m("main#main", m("h1[tabindex=-1]", "Audit"),
      m("form.grid", { onsubmit: event => { event.preventDefault(); state.search(false); } },
        FIELDS.map(([name, title]) => field(title, input(name))),
        field("Decision", m("select", { id: "decision", value: state.query.decision, onchange: event => { state.query.decision = event.target.value; } },
          ["", "allow", "deny", "human_review", "compute"].map(word => m("option", { value: word }, word || "any")))),
        field("From", input("from", "datetime-local")), field("To", input("to", "datetime-local")),
        m(".buttons", m("button.good", { disabled: state.busy }, "Search"), m("button[type=button]", { onclick: state.save }, "Export"))),
      alert(state.failure),
      m("p.quiet[role=status]", state.busy ? "Loading…" : state.note || `${count(state.events.length, "event")}${state.next ? ", newest first; there are more" : ""}`),
      m("ul.plain.events", state.events.map(event => m("li", { key: event.id }, m("ul.plain", eventLine(event)), m(Details, { event })))),
      state.next ? m("button[type=button]", { onclick: () => state.search(true) }, "More") : null);
  },
};

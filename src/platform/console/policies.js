// policies.js - documents: versions and what changed, an editor that the server checks, explanations.
import { call, callTagged } from "./api.js";
import { count, diffView, shown, time } from "./text.js";
import { alert, badge, field, link, verdict } from "./widgets.js";

const CHECK_AFTER_MS = 400;
const path = name => `api/v1/policies/${encodeURIComponent(name)}`;

const List = {
  oninit({ state }) {
    Object.assign(state, { policies: null, failure: null });
    call("GET", "api/v1/policies").then(page => { state.policies = page.policies; }, failure => { state.failure = failure; }).then(m.redraw);
  },
  view: ({ state }) => m("main#main", m("h1[tabindex=-1]", "Policies"), alert(state.failure),
    m("p.quiet[role=status]", state.policies ? count(state.policies.length, "policy", "policies") : state.failure ? "" : "Loading…"),
    m("ul.plain.rows", (state.policies || []).map(one => m("li.row", { key: one.name }, m(".what", m("a.title", { href: `#/policies/${encodeURIComponent(one.name)}` }, shown(one.name)),
      one.description ? m("div", shown(one.description)) : null),
    m(".facts", m("span", `version ${one.version}`), one.is_active ? null : badge(["off", "quiet"]), m("span.quiet", time(one.updated_at), " by ", shown(one.updated_by)))))),
    m(Explain)),
};

const problems = list => m("ul.plain", (list || []).map(one => m("li", one.line ? `Line ${one.line}, column ${one.column}: ` : "", shown(one.message))));

// Every rule, and why it applies to a request or does not. It has no effect.
const Explain = {
  oninit({ state }) { Object.assign(state, { text: '{"actor": "my_agent", "action": "my_action", "args": {}}', found: null, failure: null }); },
  view({ state }) {
    const ask = async event => {
      event.preventDefault();
      state.found = state.failure = null;
      try {
        const request = JSON.parse(state.text);
        state.found = await call("POST", request.user_id ? "v1/authorize" : "v1/agent/authorize", { query: { explain: "true" }, body: request });
      } catch (failure) {
        state.failure = failure;
      }
      m.redraw();
    };
    return m("section", m("h2", "Explain a request"), m("p.quiet", "What would be decided, and why. Nothing is counted, and nobody is asked."),
      m("form", { onsubmit: ask }, field("Request, as JSON", m("textarea[rows=4][spellcheck=false]", { id: "request", value: state.text, oninput: event => { state.text = event.target.value; } })),
        m("button", "Explain")),
      alert(state.failure),
      m("div[role=status]", state.found ? [m("p", verdict(state.found.decision), " ", m("b", shown(state.found.rule)), ": ", shown(state.found.reason)),
        typeof state.found.explain === "string" ? m("p", state.found.explain) : m("ul.plain.events", state.found.explain.map(one =>
          m("li", one.applies ? verdict(one.verdict) : badge(["not met", "quiet"]), " ", shown(`${one.policy}: ${one.rule}`), one.shadow ? m("span.quiet", " (shadow)") : null,
            m("div.quiet", shown(one.why))))),
        state.found.would_allow ? m("p", "It would be allowed by ", m("b", shown(state.found.would_allow.rule || "no rule")), ": ",
          shown([...state.found.would_allow.lacks, ...state.found.would_allow.against].join("; "))) : null] : null));
  },
};

const One = {
  oninit({ state, attrs: { name } }) {
    Object.assign(state, { name, policy: null, etag: null, text: "", check: null, failure: null, versions: [], other: null, done: "", busy: false });
    state.load = async () => {
      try {
        const { content, etag } = await callTagged("GET", path(name));
        Object.assign(state, { policy: content, etag, text: content.content, check: null });
        state.versions = (await call("GET", `${path(name)}/versions`, { query: { limit: 100 } })).versions;
      } catch (failure) {
        state.failure = failure;
      }
      m.redraw();
    };
    // The newest text is checked, once nobody has typed for a moment.
    state.typed = text => {
      state.text = text;
      state.done = "";
      clearTimeout(state.timer);
      state.check = { pending: true };
      state.timer = setTimeout(async () => {
        let found;
        try {
          found = { change: await call("PUT", path(name), { query: { dry_run: "true" }, body: { content: text } }) };
        } catch (failure) {
          found = { failure };
        }
        if (state.text === text) state.check = found;
        m.redraw();
      }, CHECK_AFTER_MS);
    };
    const change = async (done, ...request) => {
      state.busy = true;
      state.failure = null;
      try {
        const changed = await call(...request);
        state.other = null;
        state.done = `${done} Version ${changed.version} is ${changed.is_active ? "in force" : "stored; the policy is off"}.`;
        await state.load();
      } catch (failure) {
        state.failure = failure;
      }
      state.busy = false;
      m.redraw();
    };
    state.put = () => change("Stored.", "PUT", path(name), { body: { content: state.text }, headers: { "If-Match": state.etag } });
    state.rollBack = version => change(`Version ${version} is back.`, "POST", `${path(name)}/rollback`, { body: { version }, headers: { "If-Match": state.etag } });
    state.compare = version => call("GET", `${path(name)}/versions/${version}`).then(found => { state.other = found; }, failure => { state.failure = failure; }).then(m.redraw);
    state.load();
  },
  onremove({ state }) { clearTimeout(state.timer); },
  view({ state }) {
    const { policy, check } = state;
    if (!policy) return m("main#main", m("h1[tabindex=-1]", shown(state.name)), alert(state.failure));
    const isChanged = state.text !== policy.content;
    return m("main#main", m("p.back", link(["policies"], "‹ Policies")),
      m("h1[tabindex=-1]", shown(policy.name), " ", m("span.quiet", `version ${policy.version}`), policy.is_active ? null : badge(["off", "quiet"])),
      m("p[role=status]", state.done), alert(state.failure),
      state.failure && state.failure.status === 412 ? m("button[type=button]", { onclick: () => { const text = state.text; state.failure = null; state.load().then(() => state.typed(text)); } },
        "Load the newer version, and keep my text") : null,
      field("Document", m("textarea.code[rows=18][spellcheck=false]", { id: "document", value: state.text, oninput: event => state.typed(event.target.value) })),
      m(".check[role=status]", !isChanged ? m("p.quiet", "Not changed.") : !check || check.pending ? m("p.quiet", "Checking…")
        : check.failure ? m(".alert", m("p", shown(check.failure.message)), problems(check.failure.body && check.failure.body.details))
          : [m("p", badge(["valid", "good"]), " Its tests pass."), check.change.warnings && check.change.warnings.length ? [m("p", "Warnings:"), problems(check.change.warnings)] : null]),
      isChanged ? [m("h2", "What would change"), diffView(policy.content, state.text)] : null,
      m(".buttons", m("button.good[type=button]", { disabled: !isChanged || state.busy || !check || !check.change, onclick: state.put }, "Put in force"),
        m("button[type=button]", { disabled: !isChanged, onclick: () => { state.text = policy.content; state.check = null; } }, "Undo")),
      m("section", m("h2", "Versions"), m("ul.plain.rows", state.versions.map(one => m("li.row", { key: one.version },
        m(".what", `Version ${one.version}, `, time(one.created_at), " by ", shown(one.created_by)),
        one.version === policy.version ? m(".facts", badge(["newest", "good"]))
          : m(".facts", m("button[type=button]", { "aria-label": `Compare version ${one.version}`, onclick: () => state.compare(one.version) }, "Compare"),
            m("button[type=button]", { "aria-label": `Roll back to version ${one.version}`, disabled: state.busy, onclick: () => state.rollBack(one.version) }, "Roll back"))))),
      state.other ? m("section[aria-live=polite]", m("h3", `From version ${state.other.version} to version ${policy.version}`), diffView(state.other.content, policy.content)) : null));
  },
};

export const Policies = {
  title: () => "Policies",
  view: ({ attrs: { steps } }) => steps[1] ? m(One, { name: steps[1] }) : m(List),
};

// sessions.js - one's own sessions, and their end.
import { call, session } from "./api.js";
import { shown, time } from "./text.js";
import { alert, badge, until } from "./widgets.js";

const PROOFS = { key: () => "an API key", oidc: one => ["the identity provider ", shown(one.provider)] };

export const Sessions = {
  title: () => "Sessions",
  oninit({ state }) {
    Object.assign(state, { sessions: null, failure: null });
    state.load = () => call("GET", "api/v1/sessions")
      .then(found => { state.sessions = found.sessions; }, failure => { state.failure = failure; }).then(m.redraw);
    state.end = id => call("DELETE", `api/v1/sessions/${encodeURIComponent(id)}`).then(state.load, failure => { state.failure = failure; m.redraw(); });
    state.load();
  },
  view: ({ state }) => m("main#main", m("h1[tabindex=-1]", "You are ", shown(session.document.person)),
    m("p", "Signed in with ", (PROOFS[session.document.proof] || (one => one.proof))(session.document), ", in tenant ", m("b", shown(session.document.tenant_id)),
      ", with the roles ", session.document.roles.join(", "), ". This session ends ", until(session.document.expires_at), "."),
    m("h2", "Your sessions"), alert(state.failure),
    m("ul.plain.rows", (state.sessions || []).map(one => m("li.row", { key: one.id }, m(".what", "Since ", time(one.created_at), " from ", shown(one.client_address || "an unknown address"),
      m(".quiet", "last used ", time(one.seen_at), ", ends ", time(one.expires_at))),
    m(".facts", one.current ? badge(["this one", "good"])
      : m("button[type=button]", { "aria-label": `End the session since ${one.created_at}`, onclick: () => state.end(one.id) }, "End")))))),
};

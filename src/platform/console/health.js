// health.js - the platform's checks, and each engine: does it follow, are its records stored.
import { call, may, repeat, session } from "./api.js";
import { relative, shown } from "./text.js";
import { alert, badge } from "./widgets.js";

const KINDS = { file: "file", s3: "bucket", witness: "witness" };
const STATES = { current: "good", behind: "wait", silent: "bad", gone: "quiet" };

// A stream whose tree has begun again has a base above 1.
const stream = one => [shown(one.node), "/", shown(one.journal), one.base > 1 ? ` from ${one.base}` : ""];

const anchored = one => m("li", stream(one), one.anchored_at ? `: up to record ${one.anchored_seq}, ${relative(one.anchored_at)}` : [": ", badge(["nothing yet", "bad"])],
  one.checkpoint_seq > one.anchored_seq ? `; the newest checkpoint is of record ${one.checkpoint_seq}` : null);

const anchors = list => list.length === 0 ? null : m("section.anchors", m("h2", "Anchors"),
  list.map(anchor => [m("p", shown(anchor.name), ` (${KINDS[anchor.kind]}): ${anchor.streams - anchor.waiting} of ${anchor.streams} streams have their newest checkpoint there`,
    anchor.behind_since ? `; behind since ${relative(anchor.behind_since)}.` : ".", anchor.error ? [" ", badge(["look", "bad"]), " ", shown(anchor.error)] : null),
    m("ul", anchor.anchored.map(anchored))]));

export const Health = {
  title: () => "Health",
  oninit({ state }) {
    Object.assign(state, { health: null, engines: null, failure: null });
    state.poll = repeat(5000, async () => {
      try {
        state.health = await call("GET", "healthz", { background: true });
        if (may("admin") && session.document.tenant_id === "*") state.engines = await call("GET", "api/v1/engines", { query: { limit: 100 }, background: true });
        state.failure = null;
      } catch (failure) {
        state.failure = failure;
      }
    });
  },
  onremove({ state }) { state.poll.stop(); },
  view: ({ state }) => m("main#main", m("h1[tabindex=-1]", "Health"), alert(state.failure),
    state.health === null ? m("p[role=status]", "Loading…") : [
      m("section", m("h2", "Platform ", badge([state.health.status, state.health.status === "ok" ? "good" : "bad"])),
        m("p.quiet", `Version ${state.health.version}`),
        m("dl.pairs", Object.entries(state.health.checks).map(([name, said]) => [m("dt", name), m("dd", said === "ok" ? badge(["ok", "good"]) : [badge(["look", "bad"]), " ", shown(said)])])),
        (state.health.untrusted_streams || []).map(one => m("p", "No key is registered for the records of ", stream(one), ".")),
        state.health.quarantine && state.health.quarantine.rows ? m("p", `${state.health.quarantine.rows} records in quarantine.`) : null),
      m("section", m("h2", "Engines"), state.engines === null ? m("p.quiet", "For a key of role admin of the tenant *.")
        : m(".scroll[tabindex=0][role=group]", { "aria-label": "Table of engines" }, m("table",
          m("thead", m("tr", ["Engine", "State", "Revision", "Asked", "Stored up to", "Last record"].map(title => m("th[scope=col]", title)))),
          m("tbody", state.engines.engines.map(engine => m("tr", { key: engine.node }, m("th[scope=row]", shown(engine.node)), m("td", badge([engine.state, STATES[engine.state]])),
            m("td.number", `${engine.revision} of ${state.engines.revision}`), m("td", engine.seen_at ? relative(engine.seen_at) : "never"),
            m("td.number", engine.streams.map(stream => m("div", stream.next_seq - 1))),
            m("td", engine.streams.map(stream => m("div", stream.updated_at ? relative(stream.updated_at) : ""))))))))),
      anchors(state.health.anchors || []),
    ]),
};

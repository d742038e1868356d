// inbox.js - the reviews that wait, and those that were decided.
import { call, repeat, session } from "./api.js";
import { count, shown, time } from "./text.js";
import { alert, badge, Dialog, go, resourceOf, sentence, stateOf, to, until } from "./widgets.js";
import { isSeen, Summary } from "./seen.js";
import { needsText, resolve } from "./review.js";

const TABS = [["mine", "Mine"], ["all", "All waiting"], ["decided", "Decided"]];
const PAGES_MAX = 10;
const last = { tab: "mine" }; // where "back" leads

async function pages(path, query, background) {
  const items = [];
  let cursor = 0;
  for (let page = 0; page < PAGES_MAX; page++) {
    const found = await call("GET", path, { query: { ...query, limit: 500, cursor: cursor || undefined }, background });
    items.push(...found.items);
    cursor = found.next_cursor;
    if (!cursor) break;
  }
  return { items, isCut: cursor !== 0 };
}

async function load(tab, background) {
  if (tab === "decided") {
    const found = await pages("v1/queue", {}, background);
    found.items = found.items.filter(review => review.status !== "pending")
      .sort((a, b) => Date.parse(b.resolved_at || b.expires_at) - Date.parse(a.resolved_at || a.expires_at));
    return found;
  }
  const found = await pages("v1/queue/pending", { order: "deadline", mine: tab === "mine" ? "true" : "" }, background);
  if (tab === "mine") found.items = found.items.filter(isMine);
  return found;
}

// Of what the key may still vote on: what is open for this person.
function isMine(review) {
  const me = session.document.person;
  return review.acting_for !== me && review.user_id !== me && review.key_id !== session.document.key_id &&
    !review.approvals.some(vote => vote.resolved_by === me || vote.owner === me);
}

const matches = (review, words) => words.every(word =>
  [review.actor, review.user_id, review.action, review.acting_for, resourceOf(review.resource), JSON.stringify(review.args || "")]
    .some(text => text && text.toLowerCase().includes(word)));

const Row = {
  view({ attrs: { review, chosen, choose, current, tab } }) {
    const seen = isSeen(review);
    return m("li.row", { class: current ? "current" : "", "data-review": review.id },
      tab === "decided" ? null : m("label.choose", m("input[type=checkbox]", {
        checked: chosen, disabled: !seen, onchange: event => choose(review, event.target.checked),
        title: seen ? "" : "Open it first: what you have not seen cannot be chosen" }), m("span.unseen", `Choose ${review.action} of ${review.actor || review.user_id}`)),
      m(".what", m("a.title", { href: to("review", review.id) }, sentence(review)),
        review.acting_for ? m("span.acting", " for ", shown(review.acting_for), " ", m("span.claim", "claimed")) : null,
        m(Summary, { review })),
      m(".facts", tab === "decided"
        ? [badge(stateOf(review)), m("span", time(review.resolved_at || review.expires_at)), review.resolved_by ? m("span.quiet", "by ", shown(review.resolved_by)) : null]
        : [m("span.due", until(review.expires_at)), m("span.quiet", review.approvals.length ? `${review.approvals.length} agreed; ` : "", "needs ", needsText(review))]));
  },
};

const Several = {
  view({ attrs: { state } }) {
    const { outcome, reviews, results } = state.several;
    const run = async () => {
      state.several.results = [];
      for (const review of reviews) {
        try {
          results_push(state, review, (await resolve(review, outcome)).status);
        } catch (failure) {
          results_push(state, review, failure);
        }
      }
      state.chosen.clear();
      state.poll.now();
    };
    return m(Dialog, { title: `${outcome === "approve" ? "Approve" : "Deny"} ${count(reviews.length, "review")}?`, close: () => { state.several = null; } },
      m("ul.plain", reviews.map((review, at) => m("li", sentence(review), " ",
        results && results[at] ? (results[at].failure ? alert(results[at].failure) : badge([results[at].status, "good"])) : null))),
      m(".buttons", results ? m("button[type=button]", { onclick: () => { state.several = null; } }, "Close")
        : [m(`button[type=button].${outcome === "approve" ? "good" : "bad"}`, { onclick: run }, outcome === "approve" ? "Approve" : "Deny"),
          m("button[type=button]", { onclick: () => { state.several = null; } }, "Cancel")]));
  },
};

function results_push(state, review, result) {
  state.several.results.push(result instanceof Error ? { review, failure: result } : { review, status: result });
  m.redraw();
}

export const Inbox = {
  title: () => "Inbox",
  oninit({ state, attrs }) {
    if (TABS.some(([name]) => name === attrs.steps[1])) last.tab = attrs.steps[1];
    state.tab = last.tab;
    Object.assign(state, { page: null, failure: null, words: "", chosen: new Map(), current: 0, several: null });
    state.poll = repeat(2500, async () => {
      try {
        state.page = await load(state.tab, state.page !== null);
        state.failure = null;
        for (const id of state.chosen.keys()) if (!state.page.items.some(review => review.id === id)) state.chosen.delete(id);
      } catch (failure) {
        state.failure = failure;
      }
    });
    state.ticking = setInterval(m.redraw, 5000);
    attrs.keys({
      j: () => state.move(1), k: () => state.move(-1),
      Enter: () => { const one = state.list()[state.current]; if (one) go(to("review", one.id)); },
      a: () => state.begin("approve"), d: () => state.begin("deny"),
      x: () => { const one = state.list()[state.current]; if (one && isSeen(one)) state.choose(one, !state.chosen.has(one.id)); },
    });
    state.list = () => {
      const words = state.words.toLowerCase().split(/\s+/).filter(Boolean);
      return state.page ? state.page.items.filter(review => matches(review, words)) : [];
    };
    state.move = step => {
      state.current = Math.max(0, Math.min(state.list().length - 1, state.current + step));
      m.redraw();
      requestAnimationFrame(() => { const row = document.querySelector(".row.current a.title"); if (row) row.focus(); });
    };
    state.choose = (review, yes) => { if (yes) state.chosen.set(review.id, review); else state.chosen.delete(review.id); };
    state.begin = outcome => {
      if (state.chosen.size) state.several = { outcome, reviews: [...state.chosen.values()], results: null };
      m.redraw();
    };
  },
  onremove({ state }) {
    state.poll.stop();
    clearInterval(state.ticking);
  },
  view({ state }) {
    const list = state.list();
    return m("main#main", m("h1[tabindex=-1]", "Inbox"),
      m("nav.tabs", { "aria-label": "Reviews" }, TABS.map(([name, title]) =>
        m("a", { href: to("inbox", name), "aria-current": name === state.tab ? "page" : "false" }, title))),
      m("label.filter", m("span.label", "Filter"), m("input[type=search]", {
        value: state.words, oninput: event => { state.words = event.target.value; state.current = 0; } })),
      alert(state.failure),
      m("p.quiet[role=status]", state.page === null ? "Loading…" : list.length === 0
        ? state.words ? "Nothing matches." : { mine: "Nothing waits for you.", all: "Nothing waits.", decided: "Nothing was decided in the last 24 hours." }[state.tab]
        : `${count(list.length, "review")}${state.page.isCut ? ", the first of more" : ""}`),
      m("ul.plain.rows", list.map((review, at) => m(Row, { key: review.id, review, tab: state.tab, chosen: state.chosen.has(review.id),
        current: at === state.current, choose: state.choose }))),
      state.chosen.size ? m(".actions", m("span", `${state.chosen.size} chosen`),
        m("button.good[type=button]", { onclick: () => state.begin("approve") }, "Approve"),
        m("button.bad[type=button]", { onclick: () => state.begin("deny") }, "Deny")) : null,
      state.several ? m(Several, { state }) : null);
  },
};

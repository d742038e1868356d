// review.js - one review: what is asked, why a person decides, what that does; votes; live state.
import { call, may, repeat, session } from "./api.js";
import { canonical, count, relative, secondsUntil, shown, time } from "./text.js";
import { alert, badge, claim, eventLine, link, sentence, stateOf, subjectOf, until } from "./widgets.js";
import { Limits } from "./limits.js";
import { isOdd, isSeen, Parts, partsOf, seenCount } from "./seen.js";

const ENDED = ["redeemed", "denied", "expired", "cancelled"];

const missing = need => Math.max(0, need.approvals - need.so_far);
const needsOf = review => (review.needs || [{ approvals: review.approvals_required, so_far: review.approvals.length }]).filter(need => missing(need) > 0);

// The least number of people who still have to agree; one may count for several rules.
const neededVotes = review => Math.max(0, ...needsOf(review).map(missing));

// "one person of finance", for each rule that still waits
export const needsText = review => needsOf(review).map((need, at) => [at ? ", and " : "",
  missing(need) === 1 ? "one person" : `${missing(need)} people`, need.by ? [" of ", shown(need.by.join(" or "))] : null]);

export const resolve = (review, outcome, note) =>
  call("POST", `v1/queue/${encodeURIComponent(review.id)}/${outcome}`, { body: note ? { note } : {} });

const voters = review => review.approvals.map((vote, at) => [at ? ", " : "", shown(vote.resolved_by)]);

function stateText(review) {
  switch (review.status) {
  case "pending":
    return [review.approvals.length ? [voters(review), review.approvals.length === 1 ? " has" : " have", " agreed. "] : "Nobody has agreed yet. ",
      m("b", "Needed: "), needsText(review), ", before ", time(review.expires_at), ` (${relative(review.expires_at)}).`];
  case "approved":
    return ["Approved by ", voters(review), ". Waiting for the agent: it may do this once, ",
      review.approval_expires_at ? [until(review.approval_expires_at), " (until ", time(review.approval_expires_at), ")."] : "soon."];
  case "redeemed":
    return ["Approved by ", voters(review), ". The agent used the approval at ", time(review.redeemed_at), "."];
  case "denied":
    return ["Denied", review.resolved_by ? [" by ", shown(review.resolved_by)] : null, " at ", time(review.resolved_at), "."];
  case "expired":
    return review.approval_expires_at ? ["Lapsed: it was approved, but the agent did not use the approval before ", time(review.approval_expires_at), "."]
      : ["Expired: too few people agreed before ", time(review.expires_at), ". The agent was told no."];
  case "cancelled":
    return [{ revoked: "The approval was taken back", suspended: "Ended, because the agent was suspended" }[review.cancelled_by] || "Withdrawn by the agent",
      review.cancelled_by === "revoked" && review.resolved_by ? [" by ", shown(review.resolved_by)] : null, review.resolved_at ? [" at ", time(review.resolved_at)] : null, "."];
  default: return review.status;
  }
}

const asksProof = review => needsOf(review).some(need => need.proof === "oidc");

// Why one's approval would be refused, or what it has to be.
const proofText = review => !asksProof(review) ? null : m("p", "Only people who signed in with the identity provider may approve this. ",
  session.document && session.document.proof === "oidc" ? null : m("b", "You signed in with a key, so you can deny it, but not approve it."));

function voteText(review) {
  const left = neededVotes(review);
  return left > 1 ? `Your yes would be one of ${left} that are needed.` : "Your yes is the last one that is needed.";
}

const Effect = {
  view: ({ attrs: { review } }) => m("section", m("h2", "What an approval does"),
    m("p", "The agent may make this very request once. Any other argument needs a new review. The rules are checked again at that moment. ",
      "You can take the approval back until the agent has used it."),
    review.approval_expires_at ? m("p", "It is good until ", time(review.approval_expires_at), ".") : null),
};

const Votes = {
  view: ({ attrs: { review } }) => m("section", m("h2", "Votes"),
    review.approvals.length === 0 ? m("p.quiet", "None yet.") : m("ul.plain", review.approvals.map(vote => m("li",
      m("b", shown(vote.resolved_by)), " agreed at ", time(vote.at),
      vote.proof ? m("span.quiet", ` (${{ key: "signed in with a key", owner: "by the key's owner", named: "named by a key", oidc: "verified by the identity provider" }[vote.proof] || vote.proof})`) : null,
      vote.note ? m("blockquote", shown(vote.note)) : null))),
    review.resolution_note ? m("blockquote", shown(review.resolution_note)) : null),
};

const Why = {
  view: ({ attrs: { review } }) => m("section", m("h2", "Why a person decides"),
    m("p", shown(review.reason)),
    m("dl.pairs",
      m("dt", "Rule"), m("dd", shown(review.rule), review.policy_name ? [" of ", may("policy_admin", "admin")
        ? link(["policies", review.policy_name], shown(review.policy_name)) : shown(review.policy_name),
        review.policy_version ? `, version ${review.policy_version}` : ""] : null),
      m("dt", "Asked"), m("dd", time(review.enqueued_at), " with key ", m("code", review.key_id)),
      m("dt", "Trace"), m("dd", may("auditor", "admin") ? link(["trace", review.trace_id], review.trace_id) : m("code", shown(review.trace_id))),
      m("dt", "Review"), m("dd", m("code", review.id)))),
};

// Earlier reviews of the very same question.
function sameOf(review, others) {
  const key = one => canonical([one.kind, one.actor || "", one.user_id || "", one.action, one.args ?? null, one.resource ?? null, one.acting_for || "", one.context ?? null]);
  return others.filter(one => one.id !== review.id && key(one) === key(review));
}

const Before = {
  oninit({ state, attrs: { review } }) {
    state.same = null;
    state.events = null;
    call("GET", "v1/queue", { query: { actor: review.actor, action: review.action, limit: 500 } })
      .then(page => { state.same = sameOf(review, page.items); }, failure => { state.sameFailure = failure; }).then(m.redraw);
    if (may("auditor", "admin"))
      call("GET", "api/v1/audit", { query: { [review.kind === "user" ? "user_id" : "actor"]: subjectOf(review), kind: "decision", to: review.enqueued_at, limit: 20 } })
        .then(page => { state.events = page.events; }, failure => { state.eventsFailure = failure; }).then(m.redraw);
  },
  view: ({ state, attrs: { review } }) => [
    m("section", m("h2", "The same question before"), alert(state.sameFailure),
      state.same === null ? null : state.same.length === 0 ? m("p.quiet", "Not in the last 24 hours.")
        : m("ul.plain", state.same.map(one => m("li", badge(stateOf(one)), " ", link(["review", one.id], time(one.enqueued_at)),
          one.resolved_by ? [" by ", shown(one.resolved_by)] : null)))),
    m("section", m("h2", "What ", shown(subjectOf(review)), " did before"), may("auditor", "admin", "policy_admin") ? m(Limits, { requests: [review] }) : null,
      alert(state.eventsFailure),
      !may("auditor", "admin") ? m("p.quiet", "Your key may not read the audit trail (role auditor).")
        : state.events === null ? null : state.events.length === 0 ? m("p.quiet", "Nothing that is recorded.")
          : m("ul.plain.events", state.events.map(eventLine))),
  ],
};

export const Review = {
  title: () => "Review",
  oninit({ state, attrs }) {
    Object.assign(state, { review: null, failure: null, note: "", busy: false, outcome: "", away: null, acts: 0 });
    const id = attrs.steps[1];
    state.poll = repeat(1500, async () => {
      const review = state.review;
      if (review && ENDED.includes(review.status)) return state.poll.stop();
      const waits = review && review.status === "pending", acts = state.acts;
      try {
        const found = await call("GET", `v1/queue/${encodeURIComponent(id)}${waits ? "/wait" : ""}`,
          { query: waits ? { timeout_ms: 2500 } : {}, background: review !== null });
        if (state.acts === acts) state.review = found; // else it may be older than one's own vote
        state.away = null;
      } catch (failure) {
        if (state.review) state.away = failure;
        else state.failure = failure;
      }
    });
    state.act = async outcome => {
      if (state.busy || (outcome === "approve" && !isSeen(state.review))) return;
      state.busy = true;
      state.acts++;
      state.failure = null;
      try {
        state.review = await resolve(state.review, outcome, state.note.trim());
        state.outcome = { approve: "Your yes is recorded.", deny: "Your no is recorded.", revoke: "The approval is taken back." }[outcome];
        state.note = "";
      } catch (failure) {
        state.failure = failure;
        state.review = await call("GET", `v1/queue/${encodeURIComponent(id)}`).catch(() => state.review);
      }
      state.busy = false;
      state.acts++;
      state.poll.now();
      m.redraw();
    };
    state.ticking = setInterval(m.redraw, 1000); // deadlines count down
  },
  onremove({ state }) {
    state.poll.stop();
    clearInterval(state.ticking);
  },
  view({ state }) {
    const review = state.review;
    if (!review) return m("main#main", m("h1[tabindex=-1]", "Review"), state.failure ? alert(state.failure) : m("p[role=status]", "Loading…"));
    const all = partsOf(review).length, seen = seenCount(review), ready = isSeen(review);
    const isOpen = review.status === "pending" && secondsUntil(review.expires_at) > 0;
    return m("main#main.review", m("p.back", link(["inbox"], "‹ Inbox")),
      m("h1[tabindex=-1]", sentence(review)),
      review.acting_for ? m("p.acting", claim("It says that it acts for ", m("b", shown(review.acting_for)), ".")) : null,
      m("p.state[role=status]", badge(stateOf(review)), " ", stateText(review)),
      review.status === "pending" ? proofText(review) : null,
      state.away ? alert(state.away) : null,
      isOdd(review) ? m("p.alert", m("b", "Look twice: "), "this request has characters that are not visible, or letters that only look alike. They are written out as ",
        m("span.odd", "U+…"), " below.") : null,
      m("section", m("h2", "Arguments"), m(Parts, { review, claims: false })),
      partsOf(review).some(part => part.isClaim) ? m("section.claims", m("h2", claim("What the agent adds")),
        m("p.quiet", "The agent's own words. Nobody has checked them."), m(Parts, { review, claims: true })) : null,
      m(Why, { review }), m(Effect, { review }), m(Votes, { review }), m(Before, { key: review.id, review }),
      isOpen || review.status === "approved" ? m(".actions",
        m(".messages", { "aria-live": "polite" }, state.outcome ? m("p", state.outcome) : null, alert(state.failure)),
        m("label.note", m("span.label", "Note"), m("input[type=text][maxlength=2000]", {
          id: "note", title: "The agent's owner can read it", value: state.note, oninput: event => { state.note = event.target.value; } })),
        isOpen ? [
          m("button.good[type=button][data-key=a]", { "aria-disabled": String(!ready || state.busy), "aria-describedby": "effect", onclick: () => state.act("approve") }, "Approve"),
          m("button.bad[type=button][data-key=d]", { "aria-disabled": String(state.busy), onclick: () => state.act("deny") }, "Deny"),
          m("p#effect.quiet", ready ? voteText(review) : `Approve is off until all was on screen: ${seen} of ${count(all, "part")} so far. Scroll on.`),
        ] : m("button.bad[type=button][data-key=d]", { "aria-disabled": String(state.busy), onclick: () => state.act("revoke") }, "Take back"))
        : state.failure || state.outcome ? m(".actions", m(".messages", { "aria-live": "polite" }, state.outcome, alert(state.failure))) : null);
  },
};

// seen.js - which reviews were wholly on screen. What was not seen cannot be approved.
//
// The content of a review is split into parts that fit on a small screen. A part counts when all of it
// was visible. A review's content never changes, so its id is enough to remember it.
import { hasOdd, parts, pathView, shown, signed } from "./text.js";

const seen = new Map(); // id of the review: Set of numbers of parts

const content = new Map(); // id: its parts

// All that an approval is bound to and a person has to know, in the order in which it is shown.
export function partsOf(review) {
  if (content.has(review.id)) return content.get(review.id);
  const found = [];
  const add = (value, ...path) => { if (value !== undefined && value !== null) found.push(...parts(value, path)); };
  if (review.args === undefined) found.push({ path: ["arguments"], at: 0, text: "none were sent" });
  else add(review.args);
  if (review.resource && typeof review.resource === "object") {
    const { type, id, ...rest } = review.resource;
    if (Object.keys(rest).length) add(rest, "resource");
  }
  add(review.resource_properties, "resource properties");
  const claims = found.length;
  add(review.acting_for, "acting for");
  add(review.context, "context");
  add(review.confidence_score, "confidence");
  found.forEach((part, at) => { part.number = at; part.isClaim = at >= claims; });
  content.set(review.id, found);
  return found;
}

export const seenCount = review => (seen.get(review.id) || new Set()).size;
export const isSeen = review => seenCount(review) === partsOf(review).length;

export function isOdd(review) {
  return partsOf(review).some(part => hasOdd(part.text.replace(/[\n\t]/g, "")) || part.path.some(hasOdd)) ||
    [review.actor, review.user_id, review.action].some(name => name !== undefined && hasOdd(name));
}

function note(id, numbers) {
  if (!seen.has(id)) seen.set(id, new Set());
  const before = seen.get(id).size;
  numbers.forEach(number => seen.get(id).add(number));
  if (seen.get(id).size !== before) m.redraw();
}

// Calls back once the whole element is on screen, above what covers the lower edge.
function whenVisible(dom, done) {
  const cover = document.querySelector(".actions");
  const watcher = new IntersectionObserver(entries => {
    if (!entries.some(entry => entry.intersectionRatio >= 0.98)) return;
    watcher.disconnect();
    done();
  }, { threshold: [0.98, 1], rootMargin: `0px 0px -${cover ? cover.offsetHeight : 0}px 0px` });
  watcher.observe(dom);
  return watcher;
}

const Part = {
  oncreate(vnode) {
    const { review, part } = vnode.attrs;
    vnode.state.watcher = whenVisible(vnode.dom, () => note(review.id, [part.number]));
  },
  onremove(vnode) { vnode.state.watcher.disconnect(); },
  view: ({ attrs: { part } }) => m(".part", { class: part.at ? "goes-on" : "" },
    m(".path", part.at ? m("span.unseen", "goes on") : pathView(part.path)),
    m(".value", { class: part.plain || part.sign ? "" : "scalar" }, part.sign ? signed(part.sign, part.text) : shown(part.text))),
};

// The parts of a review, each remembered once it was on screen.
export const Parts = {
  view: ({ attrs: { review, claims } }) => m(".parts",
    partsOf(review).filter(part => part.isClaim === claims).map(part => m(Part, { key: part.number, review, part }))),
};

const SHORT = { parts: 5, text: 90 };
export const isShort = review => partsOf(review).length <= SHORT.parts && !isOdd(review) &&
  partsOf(review).every(part => part.path.join(" › ").length + part.text.length <= SHORT.text && !part.text.includes("\n"));

// The main arguments in a line; all of them where they are short, which then counts as seen.
export const Summary = {
  oncreate(vnode) {
    const { review } = vnode.attrs;
    if (isShort(review)) vnode.state.watcher = whenVisible(vnode.dom, () => note(review.id, partsOf(review).map(part => part.number)));
  },
  onremove(vnode) { if (vnode.state.watcher) vnode.state.watcher.disconnect(); },
  view({ attrs: { review } }) {
    const all = partsOf(review), whole = isShort(review), some = (whole ? all : all.filter(part => !part.at).slice(0, 3)).filter(part => part.path[0] !== "acting for");
    const cut = text => whole || text.length <= 60 ? shown(text) : [shown(text.slice(0, 60)), "…"];
    return m(".summary", some.map(part => m("span.pair", m("span.path", pathView(part.path)), " ",
      m("span.value", cut(part.text.split("\n")[0])), part.isClaim ? m("span.claim", "claimed") : null)),
      whole ? null : m("span.quiet", "… open it to see all"));
  },
};

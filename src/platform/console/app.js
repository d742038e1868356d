// app.js - the frame: who is signed in, which screen is shown, the keyboard.
//
// A screen is a component with a `title`. The part of the address behind # names it: #/review/rev_….
import { may, repeat, session, setTenant, signOut, whoAmI } from "./api.js";
import { shown } from "./text.js";
import { Dialog, to } from "./widgets.js";
import { Inbox } from "./inbox.js";
import { Review } from "./review.js";
import { Trace } from "./trace.js";
import { Audit } from "./audit.js";
import { Agents } from "./agents.js";
import { Policies } from "./policies.js";
import { Health } from "./health.js";
import { Sessions } from "./sessions.js";
import { placeBefore, SignIn } from "./sign_in.js";

const SCREENS = { inbox: Inbox, review: Review, trace: Trace, audit: Audit, agents: Agents, policies: Policies, health: Health, sessions: Sessions };

// In the bar: the screen, and the roles without which it is empty.
const BAR = [["inbox", "Inbox", ["reviewer"]], ["audit", "Audit", ["auditor", "admin"]], ["agents", "Agents", ["auditor", "admin"]],
  ["policies", "Policies", ["policy_admin", "admin"]], ["health", "Health", []]];

const mayOpen = roles => roles.length === 0 || may(...roles);
const first = () => (BAR.find(([, , roles]) => mayOpen(roles)) || BAR[4])[0];

function stepsNow() {
  const steps = location.hash.replace(/^#\/?/, "").split("?")[0].split("/").map(step => {
    try {
      return decodeURIComponent(step);
    } catch {
      return step;
    }
  });
  return SCREENS[steps[0]] ? steps : [first()];
}

const KEYS = [["j / k", "next, previous review"], ["Enter", "open it"], ["x", "choose it, once it was seen"], ["a", "to the button Approve"],
  ["d", "to the button Deny or Take back"], ["?", "this help"], ["Esc", "close"]];

const keys = { on: localStorage.getItem("keys") !== "off", help: false, place: "", screen: {} };

const Help = {
  view: () => m(Dialog, { title: "Keyboard", close: () => { keys.help = false; } },
    m("dl.pairs", KEYS.map(([key, meaning]) => [m("dt", m("kbd", key)), m("dd", meaning)])),
    m("label", m("input[type=checkbox]", { checked: keys.on, onchange: event => {
      keys.on = event.target.checked;
      localStorage.setItem("keys", keys.on ? "on" : "off");
    } }), " single keys work"),
    m(".buttons", m("button[type=button]", { onclick: () => { keys.help = false; } }, "Close"))),
};

const isTyping = target => target.closest("input:not([type=checkbox]), textarea, select, dialog") !== null;

addEventListener("keydown", event => {
  if (!keys.on || event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target) || !session.document) return;
  if (event.key === "?") {
    keys.help = true;
    m.redraw();
  } else if (event.key === "Enter" && event.target.closest("a, button")) {
    return;
  } else if (keys.screen[event.key]) {
    keys.screen[event.key]();
  } else {
    const button = document.querySelector(`[data-key="${CSS.escape(event.key)}"]`);
    if (!button) return;
    button.focus();
  }
  event.preventDefault();
});

const Bar = {
  view: ({ attrs: { steps } }) => m("header.bar", m("a.skip", { href: "#main", onclick: event => {
    event.preventDefault();
    document.querySelector("#main h1").focus();
  } }, "To the content"),
    m("span.brand", "writ"),
    m("nav", { "aria-label": "Screens" }, BAR.filter(([, , roles]) => mayOpen(roles)).map(([name, title]) =>
      m("a", { href: to(name), "aria-current": name === steps[0] ? "page" : "false" }, title))),
    m(".who", session.document.tenant_id === "*"
      ? m("label", m("span.unseen", "Tenant"), m("input[type=text].tenant", { value: session.tenant || "default", onchange: event => { setTenant(event.target.value); } })) : null,
      m("a", { href: to("sessions"), "aria-current": steps[0] === "sessions" ? "page" : "false" }, shown(session.document.person)),
      m("button.quiet[type=button]", { onclick: () => { keys.help = true; } }, m("span", { "aria-hidden": "true" }, "?"), m("span.unseen", "Keyboard help")),
      m("button.quiet[type=button]", { onclick: () => signOut().catch(() => {}).then(m.redraw) }, "Sign out"))),
};

// The folder of this script names the version of the page.
const version = new URL(import.meta.url).pathname.split("/").at(-2);
let isOld = false;
const CHECK_VERSION_MS = 300000;
repeat(CHECK_VERSION_MS, async () => {
  const reply = await fetch("./", { method: "HEAD", cache: "no-store" }).catch(() => null);
  if (reply && reply.ok) isOld = reply.headers.get("ETag") !== `"${version}"`;
});

const Old = {
  view: () => m("p.alert[role=alert]", "writ was updated: this page is of an older version. ",
    m("button[type=button]", { onclick: () => location.reload() }, "Reload")),
};

const App = {
  view() {
    if (!session.known) return m("main#main", m("p[role=status]", "Loading…"));
    if (!session.document) return m(SignIn);
    const steps = stepsNow(), place = `${session.tenant}/${steps.join("/")}`;
    if (place !== keys.place) Object.assign(keys, { place, screen: {} });
    return [m(Bar, { key: "bar", steps }), isOld ? m(Old, { key: "old" }) : null,
      m(SCREENS[steps[0]], { key: place, steps, keys: table => { keys.screen = table; } }),
      keys.help ? m(Help, { key: "help" }) : null];
  },
};

// A new screen: its title, and the focus on its heading, as after the load of a page.
function moved() {
  m.redraw();
  requestAnimationFrame(() => {
    const heading = document.querySelector("#main h1");
    document.title = `${session.document ? SCREENS[stepsNow()[0]].title() : "Sign in"} · writ`;
    if (heading) heading.focus({ preventScroll: true });
    scrollTo(0, 0);
  });
}

addEventListener("hashchange", moved);
m.mount(document.body, App);
whoAmI().then(() => {
  const place = session.document ? placeBefore() : "";
  if (place) location.replace(place);
  moved();
});

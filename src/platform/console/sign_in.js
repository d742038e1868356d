// sign_in.js - the screen on which people sign in: at an identity provider, or with an API key.
//
// The way by a provider leaves the page and comes back to it. The platform names a refusal by one word in
// the address: #/sign-in/WORD. The place from which a person left is kept in this tab only.
import { call, session, signIn } from "./api.js";
import { alert, field } from "./widgets.js";

// The words of platform/sign_in.c.
const REFUSALS = {
  expired: "The sign-in took longer than 10 minutes, or did not begin in this browser. Begin again.",
  mismatch: "The answer does not belong to the sign-in that began in this browser, so it was refused. Begin again.",
  used: "This sign-in was completed already. Begin again.",
  denied: "The identity provider did not sign you in.",
  refused: "The answer of the identity provider could not be verified: its code was used already or has expired, or its token is not valid. Begin again.",
  identity: "You are signed in at the identity provider, but it gives you no role here, or no name or tenant. Ask an administrator.",
  unavailable: "The identity provider cannot be reached now, so new sign-ins there have to wait. Sessions that exist go on. Try again later.",
  failed: "The sign-in could not be completed now. Try again.",
};

const PLACE = "place before the sign-in";

function refusalNow() {
  const word = /^#\/sign-in\/([a-z]+)$/.exec(location.hash);
  return word && Object.hasOwn(REFUSALS, word[1]) ? { message: REFUSALS[word[1]], code: word[1] } : null;
}

// Where a person was before the sign-in; once.
export function placeBefore() {
  const place = sessionStorage.getItem(PLACE) || "";
  sessionStorage.removeItem(PLACE);
  return place.startsWith("#/") ? place : "";
}

async function leaveFor(name) {
  const { authorization_url } = await call("POST", `api/v1/session/oidc/${encodeURIComponent(name)}`);
  if (location.hash.startsWith("#/") && !location.hash.startsWith("#/sign-in/")) sessionStorage.setItem(PLACE, location.hash);
  location.assign(authorization_url);
}

export const SignIn = {
  oninit({ state }) {
    Object.assign(state, { key: "", person: "", failure: refusalNow(), busy: false, ways: null });
    if (state.failure) history.replaceState(null, "", "#/"); // once
    call("GET", "api/v1/session/providers")
      .then(ways => { state.ways = ways; }, () => { state.ways = { key: true, providers: [] }; }).then(m.redraw);
    state.doing = async work => {
      state.busy = true;
      try {
        await work();
      } catch (failure) {
        state.failure = failure;
        state.busy = false;
      }
      m.redraw();
    };
  },
  view({ state }) {
    const submit = event => {
      event.preventDefault();
      state.doing(async () => {
        await signIn(state.key.trim(), state.person.trim());
        state.key = "";
      });
    };
    const { key, providers } = state.ways || { key: false, providers: [] };
    return m("main#main.signin", m("h1[tabindex=-1]", "Sign in"),
      session.ended ? m("p[role=status]", session.ended) : null,
      alert(state.failure),
      state.ways === null ? m("p[role=status]", "Loading…") : null,
      providers.map(({ name, available }) => m(".provider", { key: name },
        m("button[type=button]", { class: key ? "" : "good", disabled: state.busy, onclick: () => state.doing(() => leaveFor(name)) },
          "Sign in with ", m("b", name)),
        available ? null : m("p.quiet", "It cannot be reached now, so new sign-ins have to wait. Sessions that exist go on."))),
      key && providers.length > 0 ? m("h2", "Or with an API key") : null,
      key ? m("form", { onsubmit: submit },
        field("API key", m("input[type=password][required][autocomplete=current-password][spellcheck=false]",
          { id: "key", value: state.key, oninput: event => { state.key = event.target.value; } }), "It begins with wk_."),
        field("Your name", m("input[type=text][autocomplete=username]",
          { id: "person", value: state.person, oninput: event => { state.person = event.target.value; } }), "Only if the key is for several reviewers."),
        m("button.good", { disabled: state.busy }, "Sign in")) : null);
  },
};

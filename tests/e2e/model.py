"""What writ promises its clients, as a model that a person can read.

It is written from the contract and the policy language, not from the programs, and in the plainest way: no
threads, no disk, no index, a list where a list will do. A caller sends a request to the real engine and then
tells the model of it and of the reply; the model says what had to come, and raises a Difference where that did
not. It takes over from a reply only what nobody can foretell: ids, texts of tokens, and deadlines.

A question is a dictionary in the words of the agent's route (or of people's, where it has a `user_id`).
Where a request may be refused for several reasons and the contract does not say which is told, any of them will do.
"""

import collections
import datetime
import hashlib
import itertools
import json
import re

STRICTNESS = ["allow", "compute", "human_review", "deny"]
REPEATABLE = {"approve": ["pending", "approved", "redeemed"], "deny": ["denied"]}  # one's own outcome, while it is the review's
PENDING_MAX = 100  # of one actor
SLACK = 0.2  # seconds that an engine's clock may be beside ours

# What a condition makes of the arguments; an exception is a condition that cannot be evaluated.
CONDITIONS = {
    "args.n > 5": lambda args: above(args["n"], 5),
    "has(args.n) && args.n <= 3": lambda args: "n" in args and not above(args["n"], 3),
}

# What an expression of a safe call makes of the request; an exception is one that cannot be made.
TEMPLATES = {
    "${args.n}": lambda question: question["args"]["n"],
    "n is ${args.n}, by ${actor}: $${n}": lambda question: f"n is {question['args']['n']}, by {question.get('actor', '')}: ${{n}}",
    "${args.n * 2.0}": lambda question: 2 * question["args"]["n"] if above(question["args"]["n"], 0) else 0,
}

OK = None  # beside refusals: or it is not refused
DEAD, OVER = (401, "credential_revoked"), (401, "credential_expired")
ROLE, ACTOR, USER, SELF, REVIEWER = ((403, code) for code in ("missing_role", "wrong_actor", "wrong_user", "self_review", "wrong_reviewer"))
SUSPENDED, NOWHERE = (403, "actor_suspended"), (404, "not_found")
RESOLVED, VOTED, AMBIGUOUS = ((409, code) for code in ("already_resolved", "already_voted", "ambiguous_trace"))
MISMATCH, CONDITION = (422, "idempotency_mismatch"), (412, "precondition_failed")


class Difference(AssertionError):
    pass


def above(value, bound):
    if isinstance(value, str):
        raise TypeError("no such overload")
    return value > bound


def glob(patterns, text, ignore_case=False):
    return text is not None and any(re.fullmatch(re.escape(one).replace(r"\*", ".*"), text, re.I if ignore_case else 0) for one in patterns)


def seconds(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def duration(text):
    return int(text[:-1]) * {"s": 1, "m": 60, "h": 3600}[text[-1]]


def canonical(value):
    return json.dumps(value, sort_keys=True)


def masked(masks, args):
    """The arguments as records have them; `masks` are paths of two or three steps that begin with args."""
    if args is None:
        return None

    def below(value, steps):
        if not steps:
            return "[masked]"
        if not isinstance(value, (dict, list)):
            return value
        items = value.items() if isinstance(value, dict) else enumerate(value)
        shown = {key: below(one, steps[1:]) if steps[0] in ("*", str(key)) else one for key, one in items}
        return shown if isinstance(value, dict) else [*shown.values()]
    for path in masks:
        args = below(args, path.split(".")[1:])
    return args


def hold(what, right, told):
    """Every member named has to be as it is named; None: not there."""
    wrong = {name: (value, told.get(name)) for name, value in right.items() if told.get(name) != value}
    if wrong:
        raise Difference(f"{what}: " + ", ".join(f"{name} had to be {a!r} and is {b!r}" for name, (a, b) in wrong.items()))


def record(reply):
    """A decision in one form; the tool's has no booleans, so they are what they would be."""
    told = {re.sub("[A-Z]", lambda m: "_" + m[0].lower(), name): value for name, value in reply.json.items()}
    if "tool" in told:
        is_live = told["mode"] == "live"
        told |= {"allowed": is_live and told["decision"] == "allow", "requires_human_review": told["decision"] == "human_review", "compute": told["decision"] == "compute"}
    return told


def refused(reply, refusals):
    """Whether it was refused, which has to be so, or may be, for one of these reasons."""
    if reply.status in (200, 201):
        if refusals and OK not in refusals:
            raise Difference(f"had to be one of {refusals} and is {reply}")
        return False
    if (reply.status, reply.json["code"]) not in refusals:
        raise Difference(f"had to be one of {refusals or 'no error'} and is {reply}")
    return True


# ---- policies ----


class Vote:
    """One voice: of a rule, of its gate, or of its limit that is over."""

    def __init__(self, policy, rule, part, decision):
        self.policy, self.rule, self.part, self.decision = policy, rule, part, decision
        review = rule.get("review", {})
        self.source = (policy, rule["id"], part)
        self.by, self.approvals = set(review.get("by", [])), review.get("approvals", 1)
        self.expires_in, self.good_for = (duration(review.get(name, default)) for name, default in (("expires_in", "30m"), ("good_for", "15m")))

    def does_for(self, vote):
        """Whether who was asked for this was asked for as much as that vote asks."""
        return vote.approvals <= self.approvals and (not vote.by or bool(self.by) and self.by <= vote.by)

    def is_covered(self, asked):
        """Whether an approval that was asked for these votes was for this one, and whoever gave it were people enough."""
        return self.source in asked and any(old.does_for(self) for old in asked.met)


Counter = collections.namedtuple("Counter", "policy rule member value")
Passed = collections.namedtuple("Passed", "begun heard amount window")  # one request that counts: between which times, in which window


class Outcome:
    def __init__(self, decision, rule, policy=None, asks=(), safe=None, counts=()):
        self.decision, self.rule, self.policy, self.asks, self.safe, self.counts = decision, rule, policy, list(asks), safe, list(counts)


def condition(rule, args):
    try:
        return CONDITIONS[rule["when"]](args or {}) if "when" in rule else True
    except (KeyError, TypeError):
        return {"allow": False, "compute": None}.get(rule["decision"], True)


def is_selected(rule, question, action, roles):
    closed = rule["decision"] in ("deny", "human_review")
    who = [glob(rule["agents"], question["actor"], closed)] if "agents" in rule and "user_id" not in question else []
    who += [glob(rule["users"], question["user_id"], closed)] if "users" in rule and "user_id" in question else []
    who += [bool(set(rule["roles"]) & roles(question["user_id"]))] if "roles" in rule and "user_id" in question else []
    named = {"agents", "users", "roles"} & set(rule)
    where = "resources" not in rule or (glob(rule["resources"], question["resource"], closed) if question.get("resource") else closed)
    return (any(who) or not named) and where and glob(rule["actions"], action, closed)


def gate(rule, question):
    gate, confidence = rule["confidence"], question.get("confidence")
    if confidence is None:
        return gate.get("missing", "human_review")
    return "allow" if confidence >= gate["allow_at"] else "human_review" if confidence >= gate["review_at"] else "deny"


def safe_args(rule, question):
    """None: they cannot be made."""
    try:
        return {name: TEMPLATES[value](question) if value in TEMPLATES else value for name, value in rule["compute"]["args"].items()}
    except (KeyError, TypeError):
        return None


def in_force(documents):
    return {name: document for name, document in documents.items() if document.get("mode") != "shadow"}


def votes(documents, question, action, args, roles):
    for policy in sorted(documents):
        for rule in documents[policy].get("rules", []):
            applies = is_selected(rule, question, action, roles) and condition(rule, args)
            if applies is False:
                continue
            yield Vote(policy, rule, "compute" if applies is None else "rule", "deny" if applies is None else rule["decision"])
            if "confidence" in rule and "user_id" not in question and rule["decision"] != "deny":
                yield Vote(policy, rule, "gate", gate(rule, question))


def told(vote, decision):
    kind = {"human_review": "review"}.get(decision, decision)
    return f"{kind if vote.part == 'rule' or decision == 'allow' else vote.part}:{vote.rule['id']}"


def evaluate(documents, question, roles, scopes=(), asked=None, counted=None):
    """`asked`: the votes that an approval covers; `counted`: what was let through by each limit, None for a dry run."""
    asked = asked or {}
    if not all(glob(scope, question["action"]) for scope in scopes):
        return Outcome("deny", "token:scope")
    action, args = question["action"], question.get("args")
    cast = list(votes(documents, question, action, args, roles))
    if not cast:
        return Outcome("deny", "default:deny")

    def counts_as(vote):
        return "allow" if vote.decision == "human_review" and vote.is_covered(asked) else vote.decision

    first = max(cast, key=lambda vote: STRICTNESS.index(counts_as(vote)))  # the first of equals
    decision = counts_as(first)
    computes = [vote for vote in cast if vote.decision == "compute"]
    safe = None
    if computes and decision != "deny":
        compute = computes[0]
        safe = {"safe_tool": compute.rule["compute"]["tool"], "safe_args": safe_args(compute.rule, question)}
        again = [] if safe["safe_args"] is None else votes(documents, question, safe["safe_tool"], safe["safe_args"], roles)
        if safe["safe_args"] is None or any(vote.decision in ("human_review", "deny") for vote in again):
            return Outcome("deny", f"compute:{compute.rule['id']}", compute.policy)
        for other in computes:
            if safe_args(other.rule, question) is None:
                return Outcome("deny", f"compute:{other.rule['id']}", other.policy)
    limits = [Vote(vote.policy, vote.rule, "limit", vote.rule["limit"].get("over", "deny")) for vote in cast if vote.part == "rule" and "limit" in vote.rule]
    lifted = [limit for limit in limits if limit.decision == "human_review" and limit.is_covered(asked)]
    asks = [vote for vote in cast if vote.decision == "human_review"] + lifted
    if decision not in ("allow", "compute"):
        return Outcome(decision, told(first, decision), first.policy, asks)

    # What people let through before, or nobody asked about, meets the limits of every rule that applied.
    over, counts = [], []
    for bound in limits:
        limit = bound.rule["limit"]
        member = {"user": "user_id", "tenant": ""}.get(limit["per"], limit["per"])
        counter = Counter(bound.policy, bound.rule["id"], member, question.get(member))
        times, total = (counted or {}).get(counter, (0, 0))
        amount = (args or {}).get("n") if "sum" in limit else 0
        is_number = isinstance(amount, (int, float)) and amount >= 0
        is_over = times + 1 > limit["count"] or "sum" in limit and (not is_number or total + amount > limit["max"])
        counts.append((counter, duration(limit["window"]), amount if is_number else 0))
        if is_over and bound not in lifted:
            over.append(bound)
    if over:
        worst = max(over, key=lambda vote: STRICTNESS.index(vote.decision))
        return Outcome(worst.decision, f"limit:{worst.rule['id']}", worst.policy, asks + [worst])
    return Outcome(decision, told(first, decision), first.policy, safe=safe if decision == "compute" else None, counts=counts)


# ---- what there is ----


class Key:
    def __init__(self, tenant, name, owner, roles, secret, actors=None, users=(), reviewers=None):
        self.tenant, self.name, self.owner, self.roles, self.secret = tenant, name, owner, roles, secret
        self.actors, self.users, self.reviewers = actors or [name], users, reviewers or [owner]
        self.key, self.is_dead, self.expires, self.scopes = self, False, None, []
        self.is_revoked, self.successor = False, None  # of a rotated one: the key that took its place
        self.previous = None  # the key whose place this one took

    def line(self):
        return self.previous.line() if self.previous else self.id

    def stands(self):
        return not self.is_revoked and (self.successor is None or self.successor.stands())

    @property
    def principal(self):
        return self.name, self.owner


class Token:
    def __init__(self, key, body, minted):
        self.key, self.tenant, self.roles, self.scope = key, key.tenant, ["token"], minted["scope"].split()
        self.actor, self.acting_for = body.get("actor") or key.name, body.get("acting_for")
        self.id, self.secret, self.expires, self.uses = minted["token_id"], minted["token"], minted["expires_at"], body.get("max_uses")
        self.is_dead, self.revoked_at, self.scopes, self.principal = False, None, [self.scope], key.principal


class Review:
    def __init__(self, tenant, who, question, args, outcome, answer):
        """`args`: as the masks of that moment leave them."""
        self.args = args
        self.id, self.tenant, self.key, self.principal, self.question = answer["review_id"], tenant, who.key, who.principal, question
        self.asker = who  # the credential itself: the key, or one token
        self.asked = {vote.source: vote for vote in outcome.asks}
        self.rule, self.trace, self.deadline = outcome.rule, answer["trace_id"], seconds(answer["expires_at"])
        self.good_for = min(vote.good_for for vote in outcome.asks)
        self.state, self.votes, self.resolved_by = "pending", {}, None  # owner -> (principal, verb, person, roles)
        self.keys = {}  # owner -> the key that voted
        self.is_withdrawn = False  # cancelled by who asked, not with its actor's suspension

    def approval(self, roles_now):
        """What its approval covers, as long as what each vote rested on is still there."""
        yes = [(roles, roles_now(person)) for owner, (_, verb, person, roles) in self.votes.items() if verb == "approve" and self.keys[owner].stands()]
        return Approval(self.asked, [vote for vote in self.asked.values()
                                     if sum(not vote.by or bool(vote.by & then and vote.by & now) for then, now in yes) >= vote.approvals])

    def is_met(self):
        yes = [roles for _, verb, _, roles in self.votes.values() if verb == "approve"]
        return all(sum(not vote.by or bool(vote.by & roles) for roles in yes) >= vote.approvals for vote in self.asked.values())

    def belongs_to(self, who):
        if who.principal != self.principal:
            return False
        return isinstance(who, Key) or (self.question.get("actor"), self.question.get("acting_for")) == (who.actor, who.acting_for)


class Approval(dict):
    def __init__(self, asked, met):
        super().__init__(asked)
        self.met = met


def binding(question):
    return canonical({name: value for name, value in question.items() if name not in ("confidence", "trace_id")})


class Shelf:
    """One policy of the platform, with every text that it ever had."""

    def __init__(self):
        self.texts, self.tags = [], []  # of versions 1, 2, …; ETags, the one at hand last
        self.version, self.is_active, self.description = None, True, None  # version None: deleted, or never there

    def meets(self, condition):
        match, none_match = condition.get("If-Match"), condition.get("If-None-Match")
        if match and (self.version is None or match not in ("*", self.tags[-1])):
            return False
        return not none_match or self.version is None or none_match not in ("*", self.tags[-1])

    def holds(self, told):
        hold("a policy", {"version": self.version, "is_active": self.is_active, "description": self.description, "content": self.texts[self.version - 1]}, told)


class Model:
    """All tenants. `now` is only ever set by `advance`."""

    def __init__(self):
        self.now = 0.0
        self.credentials = {}                                   # name -> Key or Token
        self.shelves = collections.defaultdict(lambda: collections.defaultdict(Shelf))  # tenant -> name -> its policy
        self.documents = collections.defaultdict(dict)          # tenant -> name -> document, of those that are active
        self.suspended = collections.defaultdict(set)           # tenant -> actors
        self.heard = 0.0                                        # when the reply that is told of came
        self.counted = collections.defaultdict(lambda: collections.defaultdict(list))  # tenant -> counter -> what it let through
        self.reviews, self.tokens = {}, {}                      # id -> Review, Token
        self.traces = collections.defaultdict(dict)             # (tenant, trace id) -> ids of the reviews that its decisions were given
        self.kept = {}                                          # (credential, "mint" or a review's id, Idempotency-Key) -> (body, answer)
        self.events = collections.Counter()                     # (tenant, kind, …) as the trail must have them

    # ---- time ----

    def deadlines(self):
        yield from (who.expires for who in self.credentials.values() if who.expires and who.expires > self.now)
        yield from (review.deadline for review in self.reviews.values() if review.state in ("pending", "approved"))

    def advance(self, now):
        self.now = max(self.now, now)
        for review in self.reviews.values():
            if review.state in ("pending", "approved") and self.now >= review.deadline:
                self.settle(review, "expired")

    def settle(self, review, state, by=None):
        kind = "lapsed" if (review.state, state) == ("approved", "expired") else state
        review.state, review.resolved_by = state, by or review.resolved_by
        if state != "approved":  # whose votes are in the trail
            self.events[(review.tenant, f"review.{kind}", review.id)] += 1

    # ---- who ----

    def dead(self, who):
        over = [one for one in (who, who.key) if one.expires and self.now >= one.expires]
        return ({OVER} if over else set()) | ({DEAD} if who.is_dead or who.key.is_dead or who.key in over else set())

    def speech(self, who, question):
        """Why this credential may not ask this."""
        if "user_id" in question:
            return ({ROLE} if "app" not in who.roles else set()) | ({USER} if isinstance(who, Key) and not glob(who.users, question["user_id"]) else set())
        actor, acting_for = question.get("actor"), question.get("acting_for")
        if isinstance(who, Token):
            return ({ACTOR} if actor not in (None, who.actor) else set()) | ({USER} if acting_for not in (None, who.acting_for) else set())
        wrong = {ROLE} if "agent" not in who.roles else set()
        wrong |= {ACTOR} if not glob(who.actors, actor or who.name) else set()
        return wrong | ({USER} if acting_for and not glob(who.users, acting_for) else set())

    def filled(self, who, question):
        """The question with what the credential says where it says nothing itself."""
        question = {name: value for name, value in question.items() if value is not None}
        if "user_id" not in question:
            question.setdefault("actor", who.actor if isinstance(who, Token) else who.name)
            if isinstance(who, Token) and who.acting_for:
                question.setdefault("acting_for", who.acting_for)
        return question

    def roles_of(self, tenant):
        members = collections.defaultdict(list)
        for document in in_force(self.documents[tenant]).values():
            for role, people in document.get("roles", {}).items():
                members[role] += people
        return lambda person: {role for role, people in members.items() if glob(people, person)}

    # ---- what is in force ----

    def policy_put(self, reply, tenant, name, text, condition, **more):
        shelf = self.shelves[tenant][name]
        if not refused(reply, set() if shelf.meets(condition) else {CONDITION}):
            self.shelved(reply, tenant, name, "policy.put", text, **more)

    def policy_rollback(self, reply, tenant, name, version, condition):
        shelf = self.shelves[tenant][name]
        why = ({NOWHERE} if not 1 <= version <= len(shelf.texts) else set()) | (set() if shelf.meets(condition) else {CONDITION})
        if not refused(reply, why):
            self.shelved(reply, tenant, name, "policy.rolled_back", shelf.texts[version - 1])

    def policy_delete(self, reply, tenant, name, condition):
        shelf = self.shelves[tenant][name]
        why = ({NOWHERE} if shelf.version is None else set()) | (set() if shelf.meets(condition) else {CONDITION})
        if refused(reply, why):
            return
        hold("a deletion", {"deleted": True}, reply.json)
        self.events[(tenant, "policy.deleted", name, shelf.version)] += 1
        shelf.version, shelf.is_active, shelf.description = None, True, None
        self.documents[tenant].pop(name, None)

    def shelved(self, reply, tenant, name, kind, text, is_active=None, description=None):
        shelf, was_there = self.shelves[tenant][name], self.shelves[tenant][name].version is not None
        before = (shelf.version, shelf.is_active, shelf.description)
        if not was_there or shelf.texts[shelf.version - 1] != text:
            shelf.texts.append(text)
            shelf.version = len(shelf.texts)
        shelf.is_active = shelf.is_active if is_active is None else is_active
        shelf.description = shelf.description if description is None else description
        if before != (shelf.version, shelf.is_active, shelf.description):
            self.events[(tenant, kind, name, shelf.version)] += 1
            if reply.header("etag") in shelf.tags:
                raise Difference(f"a policy that changed has an ETag that it had: {reply.header('etag')}")
            shelf.tags.append(reply.header("etag"))
        hold("a change of a policy", {"status": 200 if was_there else 201, "etag": shelf.tags[-1]}, {"status": reply.status, "etag": reply.header("etag")})
        shelf.holds(reply.json)
        self.documents[tenant].pop(name, None)
        if shelf.is_active:
            self.documents[tenant][name] = json.loads(text)

    # ---- decisions ----

    def evaluated(self, who, question, **more):
        scopes = [*who.scopes, *([question["scope"].split()] if question.get("scope") else [])]
        return evaluate(in_force(self.documents[who.tenant]), question, self.roles_of(who.tenant), scopes, **more)

    def tallies(self, passed, window, begun):
        """What the window may hold between `begun` and now. What was counted in one window is forgotten oldest first, a sixtieth late
        at most; what was counted in an earlier, shorter window may be forgotten when that one has passed, and in another one is a
        sixtieth of that later."""
        choices = []
        for counted_in in {one.window for one in passed}:
            late = window / 60 + (counted_in / 60 if counted_in != window else 0)
            held = [one for one in passed if one.window == counted_in and begun - one.heard - SLACK < window + late]
            sure = [one for one in held if self.heard - one.begun + SLACK < min(window, counted_in)]
            choices.append([(len(held) - left, sum(one.amount for one in held[left:])) for left in range(len(held) - len(sure) + 1)])
        for choice in itertools.product(*choices):
            yield sum(times for times, _ in choice), sum(amount for _, amount in choice)

    def windows(self, tenant):
        """The window of each limit that is in force, by its policy and rule."""
        return {(name, rule["id"]): duration(rule["limit"]["window"])
                for name, document in self.documents[tenant].items() for rule in document.get("rules", []) if "limit" in rule}

    def answered(self, answer, who, question, **more):
        """The outcome. Where it hangs on whether something has just left a window, the one that was answered."""
        begun, windows, counted = seconds(answer["timestamp"]), self.windows(who.tenant), self.counted[who.tenant]
        counters = [one for one in counted if one.value == question.get(one.member) and (one.policy, one.rule) in windows]
        held = [list(self.tallies(counted[one], windows[one.policy, one.rule], begun)) for one in counters]
        outcomes = [self.evaluated(who, question, counted=dict(zip(counters, choice)), **more) for choice in itertools.product(*held)]
        return next((one for one in outcomes if (one.decision, one.rule) == (answer["decision"], answer["rule"])), outcomes[0])

    def digest(self, tenant):
        lines = "".join(f"{name} {hashlib.sha256(json.dumps(document).encode()).hexdigest()}\n" for name, document in sorted(self.documents[tenant].items()))
        return hashlib.sha256(lines.encode()).hexdigest()

    def masked(self, tenant, args):
        return masked([path for document in self.documents[tenant].values() for path in document.get("mask", [])], args)

    def recorded(self, tenant, question, answer, mode="live"):
        args = canonical(self.masked(tenant, question.get("args")))
        self.events[(tenant, "decision", answer["trace_id"], answer["decision"], answer["rule"], mode, args)] += 1

    def dry_run(self, reply, credential, question):
        who = self.credentials[credential]
        if refused(reply, self.dead(who) or ({ROLE} if not {"auditor", "admin", "policy_admin"} & set(who.roles) else set())):
            return
        answer = record(reply)
        if question.get("actor") in self.suspended[who.tenant]:
            outcome = Outcome("deny", "actor:suspended")
        else:
            outcome = self.evaluated(who, self.filled(who, question))
        hold("a dry run", {"decision": outcome.decision, "rule": outcome.rule, "allowed": False, "mode": "dry_run", "review_id": None}, answer)
        self.recorded(who.tenant, question, answer, "dry_run")

    def ask(self, reply, credential, question):
        who = self.credentials[credential]
        if refused(reply, self.dead(who) or self.speech(who, question)):
            return
        filled, answer, uses = self.filled(who, question), record(reply), getattr(who, "uses", None)
        if filled.get("actor") in self.suspended[who.tenant]:
            outcome = Outcome("deny", "actor:suspended")
        else:
            outcome = self.spent(who, self.answered(answer, who, filled), answer)
        if question.get("trace_id"):
            hold("a decision", {"trace_id": question["trace_id"]}, answer)
        self.concluded(who, filled, outcome, answer, uses=uses)

    def spent(self, who, outcome, answer):
        """What is answered to `outcome`, of which a token with counted uses spends one."""
        uses_left = getattr(who, "uses", None)
        if uses_left == 0:
            return outcome if answer["rule"] == outcome.rule == "token:scope" else Outcome("deny", "token:uses")
        if uses_left:
            who.uses -= 1
        return outcome

    def approved_already(self, who, question, outcome):
        """The newest approved review of this very request whose votes cover all that is asked now."""
        own = [one for one in self.reviews.values() if (one.state, one.tenant, one.principal) == ("approved", who.tenant, who.principal)]
        own = [one for one in own if binding(one.question) == binding(question)]
        return next((one for one in reversed(own) if all(vote.is_covered(one.approval(self.roles_of(who.tenant))) for vote in outcome.asks)), None)

    def concluded(self, who, question, outcome, answer, redeemed=None, uses=None):
        """What every live decision has in common, a redemption's too. `uses`: what its token had left."""
        tenant, review, status = who.tenant, None, None
        if outcome.decision == "human_review":
            pending = [one for one in self.reviews.values() if one.state == "pending" and one.tenant == tenant]
            review = next((one for one in pending if one.principal == who.principal and binding(one.question) == binding(question)), None)
            subject = [question.get(name) for name in ("actor", "user_id")]
            crowd = [one for one in pending if [one.question.get(name) for name in ("actor", "user_id")] == subject]
            approved = self.approved_already(who, question, outcome) if review is None else None
            if approved is not None:
                review, status = approved, "approved"
                if uses is not None:
                    who.uses = uses
            elif review is None and len(crowd) >= PENDING_MAX:
                outcome = Outcome("deny", "limit:pending")
        hold("a decision", {
            "decision": outcome.decision, "rule": outcome.rule, "policy_name": outcome.policy, "mode": "live",
            "allowed": outcome.decision == "allow", "requires_human_review": outcome.decision == "human_review", "compute": outcome.decision == "compute",
            "review_status": status, "policy_digest": self.digest(tenant), **(outcome.safe or {"safe_tool": None, "safe_args": None})}, answer)
        self.recorded(tenant, question, answer)
        for counter, window, amount in outcome.counts:
            self.counted[tenant][counter].append(Passed(seconds(answer["timestamp"]), self.heard, amount, window))
        if outcome.decision != "human_review":
            hold("a decision", {"review_id": redeemed and redeemed.id}, answer)
            return
        if review is None:
            if answer["review_id"] in self.reviews:
                raise Difference(f"had to open a review and gave {answer['review_id']} again")
            review = self.reviews[answer["review_id"]] = Review(tenant, who, question, self.masked(tenant, question.get("args")), outcome, answer)
            waits = review.deadline - seconds(answer["timestamp"])
            hold("a new review", {"waits": min(vote.expires_in for vote in outcome.asks)}, {"waits": round(waits, 3)})
            self.events[(tenant, "review.enqueued", review.id)] += 1
        hold("a decision", {"review_id": review.id}, answer)
        self.traces[(tenant, answer["trace_id"])][review.id] = True

    # ---- reviews ----

    def found(self, who, reference, is_own=False):
        """(the review, why not)."""
        mine = "reviewer" in who.roles and not is_own
        visible = [one for one in self.reviews.values() if one.tenant == who.tenant and (mine or one.belongs_to(who)) and
                   (one.id == reference or one.id in self.traces[(who.tenant, reference)])]
        if len(visible) > 1:
            return None, {AMBIGUOUS}
        return (visible[0], set()) if visible else (None, {NOWHERE})

    def item(self, review, told):
        question = review.question
        hold("a review", {
            "id": review.id, "status": review.state, "rule": review.rule, "trace_id": review.trace, "action": question["action"], "actor": question.get("actor"),
            "user_id": question.get("user_id"), "acting_for": question.get("acting_for"), "args": review.args, "tenant_id": review.tenant,
            "kind": "user" if "user_id" in question else "agent", "resolved_by": review.resolved_by,
            "confidence_score": question.get("confidence"), "approvals_required": max(vote.approvals for vote in review.asked.values())}, told)
        people = [person for _, verb, person, _ in review.votes.values() if verb == "approve"]
        hold("a review", {"approvals": people}, {"approvals": [vote["resolved_by"] for vote in told["approvals"]]})

    def get(self, reply, credential, reference):
        who = self.credentials[credential]
        review, why = self.found(who, reference)
        if not {"agent", "app", "reviewer", "token"} & set(who.roles):
            why = {ROLE}
        if not refused(reply, self.dead(who) or why) and review:
            self.item(review, reply.json)

    def resolve(self, reply, credential, verb, reference, person=None):
        who = self.credentials[credential]
        review, person = self.reviews.get(reference), person or who.owner
        if "reviewer" not in who.roles or review is None or review.tenant != who.tenant:
            refused(reply, self.dead(who) or {ROLE if "reviewer" not in who.roles else NOWHERE, *([REVIEWER] if not glob(who.reviewers, person) else [])})
            return
        asked = review.question
        why = set(self.dead(who))
        why |= {REVIEWER} if not glob(who.reviewers, person) else set()
        if {who.name, who.owner, person} & {*review.principal, *(asked.get(name) for name in ("actor", "user_id", "acting_for"))}:
            why.add(SELF)
        mine = review.votes.get(who.owner)
        state = "approved" if review.state == "expired" and review.is_met() else review.state  # it was, before its time was over
        is_repeated = mine is not None and mine[:3] == (who.principal, verb, person) and state in REPEATABLE[verb]
        roles = self.roles_of(who.tenant)(person)
        if is_repeated:
            why = why and why | {OK}
        else:
            if review.state != "pending":
                why.add(RESOLVED)
            elif mine is not None or verb == "approve" and any(
                    {who.owner, person} & {owner, voter} for owner, (_, _, voter, _) in review.votes.items()):
                why.add(VOTED)
            if not any(not vote.by or vote.by & roles for vote in review.asked.values()):
                why.add(REVIEWER)
        if refused(reply, why):
            if reply.json["code"] == "already_resolved":
                hold("a conflict", {"status": review.state, "resolved_by": review.resolved_by}, reply.json)
            return
        answer = reply.json
        if not is_repeated:
            review.votes[who.owner], review.keys[who.owner] = (who.principal, verb, person, roles), who
            if verb == "approve":
                self.events[(who.tenant, "review.approved", review.id)] += 1
            if verb == "deny":
                self.settle(review, "denied", person)
            elif review.is_met():
                self.settle(review, "approved", person)
                review.deadline = seconds(answer["approval_expires_at"])
                hold("an approval", {"good for": review.good_for}, {"good for": round(review.deadline - seconds(answer["resolved_at"]), 3)})
        hold("a resolution", {"success": True}, answer)
        self.item(review, answer)

    def cancel(self, reply, credential, reference):
        who = self.credentials[credential]
        review = self.reviews.get(reference)
        why = self.dead(who)
        if not why and not {"agent", "app"} & set(who.roles):
            why = {ROLE}
        elif not why and (review is None or review.tenant != who.tenant or not review.belongs_to(who)):
            why = {NOWHERE}
        elif not why and review.state != "pending" and not review.is_withdrawn:
            why = {RESOLVED}
        if not refused(reply, why):
            if review.state == "pending":
                self.settle(review, "cancelled", who.key.owner)
                review.is_withdrawn = True
            hold("a cancelled review", {"status": "cancelled"}, reply.json)

    def redeem(self, reply, credential, reference, question, form, retry=None):
        who, body = self.credentials[credential], canonical([form, question])
        review, why = self.found(who, reference, is_own=True)
        why = self.dead(who) or why | self.speech(who, question)
        filled, kept = self.filled(who, question), (who.key.line() if review else None, review and review.id, retry)
        is_stopped = filled.get("actor") in self.suspended[who.tenant]
        if retry and kept in self.kept and self.kept[kept][0] != body and not is_stopped:
            why = why | {MISMATCH}
        if refused(reply, why) or review is None:
            return
        answer = record(reply)
        hold("a redemption", {"trace_id": question.get("trace_id") or review.trace}, answer)
        is_repeated = retry and kept in self.kept and binding(filled) == binding(review.question)
        is_repeated = is_repeated and self.evaluated(who, filled).rule != "token:scope"
        if is_repeated and not is_stopped:
            hold("a repeated redemption", {**self.kept[kept][1], "replayed": True}, answer)
            return
        wrong = {f"review:{review.state}"} if review.state != "approved" else set()
        wrong |= {"review:binding"} if binding(filled) != binding(review.question) else set()
        if is_stopped:
            wrong = {"actor:suspended"}
        elif wrong:
            wrong |= {"token:scope"} if self.evaluated(who, filled).rule == "token:scope" else set()
        if wrong:
            if answer["rule"] not in wrong:
                raise Difference(f"a redemption had to be one of {wrong} and is {answer['rule']}")
            return self.concluded(who, filled, Outcome("deny", answer["rule"]), answer, review)
        outcome, uses = self.answered(answer, who, filled, asked=review.approval(self.roles_of(who.tenant))), getattr(who, "uses", None)
        if review.asker is not who:
            outcome = self.spent(who, outcome, answer)
        self.concluded(who, filled, outcome, answer, review, uses)
        if outcome.decision in ("allow", "compute"):
            self.settle(review, "redeemed")
            if retry:
                recorded = {"safe_args": self.masked(who.tenant, answer["safe_args"])} if "safe_args" in answer else {}
                self.kept[kept] = (body, {**answer, **recorded}, credential)
            if "redemption_id" not in answer:
                raise Difference("a redemption has no redemption_id")

    # ---- tokens and actors ----

    def mint(self, reply, credential, asked, retry=None):
        who, kept = self.credentials[credential], self.kept.get((credential, "mint", retry)) if retry else None
        why = self.dead(who) or self.speech(who, {"action": "", **asked} if isinstance(who, Key) else {"action": ""})
        if isinstance(who, Token):
            why = self.dead(who) or {ROLE}
        if not why and (asked.get("actor") or who.name) in self.suspended[who.tenant]:
            why = {SUSPENDED} | ({OK} if kept else set())
        if kept and kept[0] != canonical(asked) and not why - {OK, SUSPENDED}:
            why = why - {OK} | {MISMATCH}
        if refused(reply, why):
            return
        answer = reply.json
        if kept:
            hold("a repeated mint", {**kept[1], "replayed": True}, answer)
            return
        hold("a token", {"scope": asked["scope"], "replayed": None}, answer)
        token = Token(who, asked, answer)
        if token.id in self.tokens:
            raise Difference(f"{token.id} was minted twice")
        self.tokens[token.id] = self.credentials[token.id] = token
        self.events[(who.tenant, "token.minted", token.id)] += 1
        if retry:
            self.kept[(credential, "mint", retry)] = (canonical(asked), answer)

    def revoke(self, reply, credential, token_id):
        who, token = self.credentials[credential], self.tokens[token_id]
        if self.now >= token.expires:
            return  # it may be forgotten by now, and it may be remembered
        why = self.dead(who)
        if not why and not {"agent", "admin"} & set(who.roles):
            why = {ROLE}
        elif not why and token.tenant != who.tenant:
            why = {NOWHERE}
        elif not why and "admin" not in who.roles and token.key is not who:
            why = {ROLE}
        if not refused(reply, why):
            hold("a revocation", {"success": True, "token_id": token_id, **({"revoked_at": token.revoked_at} if token.revoked_at else {})}, reply.json)
            self.events[(token.tenant, "token.revoked", token_id)] = 1
            token.is_dead, token.revoked_at = True, reply.json["revoked_at"]

    def introspect(self, reply, credential, token_id):
        who, token = self.credentials[credential], self.tokens[token_id]
        if refused(reply, self.dead(who) or ({ROLE} if not {"agent", "app", "admin"} & set(who.roles) else set())):
            return
        if self.dead(token) or token.uses == 0 or token.tenant != who.tenant:
            right = {"active": False, "jti": None, "uses_left": None}
        else:
            right = {"active": True, "jti": token.id, "actor": token.actor, "acting_for": token.acting_for, "scope": " ".join(token.scope), "uses_left": token.uses}
        hold("an introspection", right, reply.json)

    def suspend(self, reply, credential, actor):
        who = self.credentials[credential]
        if refused(reply, self.dead(who) or ({ROLE} if "admin" not in who.roles else set())):
            return
        hold("a suspension", {"success": True, "actor": actor, "suspended": True}, reply.json)
        if actor not in self.suspended[who.tenant]:
            self.suspended[who.tenant].add(actor)
            self.events[(who.tenant, "actor.suspended", actor)] += 1
        for token in self.tokens.values():
            if (token.tenant, token.actor) == (who.tenant, actor):
                token.is_dead = True
        for review in self.reviews.values():
            if (review.tenant, review.question.get("actor")) == (who.tenant, actor) and review.state in ("pending", "approved"):
                self.settle(review, "denied" if review.state == "pending" else "cancelled", who.owner)

    def resume(self, reply, credential, actor):
        who = self.credentials[credential]
        why = {ROLE} if "admin" not in who.roles else {NOWHERE} if actor not in self.suspended[who.tenant] else set()
        if not refused(reply, self.dead(who) or why):
            self.suspended[who.tenant].discard(actor)
            self.events[(who.tenant, "actor.resumed", actor)] += 1
            hold("a resumption", {"success": True, "actor": actor, "suspended": False}, reply.json)

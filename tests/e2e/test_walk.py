"""A random walk over everything a client can do to the engine and to its policies, each answer held against model.py.

Two tenants, people and programs of several roles, policies and keys that change under them, kill -9, restarts on
another number of reactors, a platform that is away: single tests look at each of these, this one at what they do to
each other. One call after another, so that every outcome is determined. WRIT_SEED=N repeats a walk; WRIT_LONG=1
walks many, WRIT_WALKS and WRIT_STEPS as many and as far as they say.
"""

import collections
import copy
import json
import os
import random
import re
import time

import harness
from model import CONDITIONS, TEMPLATES, Difference, Key, Model, Token, canonical, hold, seconds

SEED = int(os.environ.get("WRIT_SEED") or random.SystemRandom().randrange(1 << 32))
WALKS = int(os.environ.get("WRIT_WALKS") or (40 if harness.LONG else 1))
STEPS = int(os.environ.get("WRIT_STEPS") or (4000 if harness.LONG else 1200))

# How far the clocks of this process and of the engine may be apart: a deadline so near a call may have passed or not.
NARROW = 0.2

TENANTS = ["red", "blue"]
ACTIONS = ["read", "pay", "ship", "calc"]
ACTORS = ["bot-1", "bot-2", "bot-3"]
PEOPLE = {"roles": {"finance": ["carol", "rita"], "legal": ["dan"]}}
DOCUMENTS = ["a", "b", "shadow"]
ROUTES = {"agent": "/v1/agent/authorize", "tool": "/api/v1/authorize", "user": "/v1/authorize"}
STAFF = [  # name, owner, roles and whom they speak for; two keys of one name are one principal where they have one owner
    ("desk", "olga", ["agent", "app"], {"actors": ["desk", "bot-*"], "users": ["ann", "carol"]}),
    ("desk", "olga", ["agent", "app"], {"actors": ["desk", "bot-*"], "users": ["ann", "carol"]}),
    ("shop", "otto", ["agent"], {"actors": ["shop", "bot-1", "bot-2"], "users": []}),
    ("wendy", "wendy", ["agent", "reviewer"], {"actors": ["*"], "users": ["*"], "reviewers": ["*"]}),
    ("laptop", "carol", ["reviewer"], {}),
    ("ritas", "rita", ["reviewer"], {"reviewers": ["*"]}),
    ("ritas-phone", "rita", ["reviewer"], {"reviewers": ["*"]}),
    ("laptop", "dan", ["reviewer"], {}),
    ("admins", "ada", ["admin"], {}),
    ("auditors", "aud", ["auditor"], {}),
    ("desk", "oscar", ["agent", "app"], {"actors": ["*"], "users": ["*"]}),
]


class Walk:
    def __init__(self, stack, seed):
        self.stack, self.seed, self.random, self.model = stack, seed, random.Random(seed), Model()
        self.steps, self.last, self.done = 0, collections.deque(maxlen=15), collections.Counter()
        self.names = {}   # tenant -> names of its keys' credentials
        self.overlapped = {}  # (tenant, place) -> name of the key whose overlap began last
        self.asked = {tenant: [] for tenant in TENANTS}
        self.away = 0     # for so many more steps the platform is away
        for tenant in TENANTS:
            self.names[tenant] = [self.hire(tenant, *staff) for staff in STAFF]
            self.put(tenant, "people", PEOPLE)
            for name in DOCUMENTS:
                self.put(tenant, name, self.document(name))
        self.stack.wait_followed()

    # ---- calls ----

    def call(self, step, credential, method, path, body=None, headers=None, **told):
        """One request; the model is told of the reply, as one of the moments at which it may have been answered."""
        begun = time.time()
        with self.stack.at_engine(self.model.credentials[credential].secret) as wire:
            reply = wire.request(method, path, body=body, headers=headers)
        self.model.heard = time.time()
        near = [at for at in self.model.deadlines() if begun - NARROW < at <= self.model.heard + NARROW]
        self.last.append(f"{credential}: {method} {path} {json.dumps(body) if body is not None else ''} {headers or ''} -> {reply.status} {self.short(reply)}")
        self.done[step] += 1
        fits, differences = [], []
        for moment in [begun - NARROW, *sorted(near)]:
            trial = copy.deepcopy(self.model) if near else self.model
            trial.advance(moment)
            try:
                getattr(trial, step)(reply, credential, **told)
                fits.append(trial)
            except Difference as difference:
                differences.append(difference)
        if len(fits) > 1:
            self.look_again(fits, differences)
        if not fits:
            raise differences[0]
        self.model = fits[0]

    def look_again(self, fits, differences):
        """An answer that does not tell whether a review's time was over: the review does, once it is."""
        for review in [one for one in self.model.reviews.values() if len({trial.reviews[one.id].state for trial in fits}) > 1]:
            with self.stack.at_engine(self.model.credentials[self.names[review.tenant][5]].secret) as wire:
                path = f"/v1/queue/{review.id}"
                item = harness.eventually(lambda: (told := wire.get(path).json)["status"] not in ("pending", "approved") and told, f"{path} is over")
            for trial in [*fits]:
                try:
                    trial.advance(trial.reviews[review.id].deadline)
                    trial.item(trial.reviews[review.id], item)
                except Difference as difference:
                    differences.append(difference)
                    fits.remove(trial)

    @staticmethod
    def short(reply):
        shown = ("code", "decision", "rule", "policy_name", "policyName", "trace_id", "traceId", "review_id", "reviewId", "status", "id", "token_id", "replayed", "active")
        return json.dumps({name: value for name, value in reply.json.items() if name in shown})

    def story(self):
        """What a person needs to do the last steps again by hand."""
        lines = ["policies in force:", *(f"{tenant}: {json.dumps(documents)}" for tenant, documents in self.model.documents.items())]
        for name in set(re.findall("rev_[0-9A-Z]{26}", self.last[-1])) & set(self.model.reviews):
            review = self.model.reviews[name]
            lines.append(f"{name} is {review.state} and asked for {[(*source, sorted(vote.by), vote.approvals) for source, vote in review.asked.items()]}")
        return "\n".join([*lines, "the last steps:", *self.last])

    def note(self, what):
        self.last.append(f"-- {what}")
        self.done[what.split()[0]] += 1

    # ---- who and what ----

    def hire(self, tenant, name, owner, roles, globs):
        reply = self.at_platform("POST", f"/api/v1/keys?tenant_id={tenant}", {"name": name, "owner": owner, "tenant": tenant, "roles": roles, **globs})
        assert reply.status == 201, reply
        return self.hired(tenant, name, owner, roles, globs, reply)

    def hired(self, tenant, name, owner, roles, globs, reply):
        credential = f"{name}@{tenant}#{len(self.model.credentials)}"
        self.model.credentials[credential] = Key(tenant, name, owner, roles, reply.json["key"], **globs)
        self.model.credentials[credential].id = reply.json["id"]
        return credential

    def at_platform(self, method, path, body=None, headers=None):
        with self.stack.at_platform("root") as wire:
            return wire.request(method, path, body=body, headers=headers)

    def put(self, tenant, name, document, condition=None, **more):
        text = json.dumps(document)
        reply = self.at_platform("PUT", f"/api/v1/policies/{name}?tenant_id={tenant}", {"content": text, **more}, condition)
        self.model.policy_put(reply, tenant, name, text, condition or {}, **more)

    def chance(self, share):
        return self.random.random() < share

    def document(self, name):
        """Rules with the same ids each time, of which most is left to chance."""
        pick, rules = self.random.choice, []
        if name == "a" and self.chance(0.9):
            base = {"id": "base", "agents": ["*"], "users": ["*"], "actions": [*ACTIONS, "safe_calc"], "decision": "allow"}
            if self.chance(0.6):
                base["limit"] = {"per": pick(["actor", "tenant"]), "window": pick(["2s", "3s"]), "count": pick([1, 2, 3]), "over": pick(["deny", "human_review"])}
            rules.append(base)
        for number in range(3):
            rule = {"id": f"r{number}", "actions": self.random.sample([*ACTIONS, "safe_*" if self.chance(0.3) else "pay"], 2)}
            rule["decision"] = self.random.choices(["allow", "human_review", "compute", "deny"], [6, 6, 2, 0.7])[0]
            if rule["decision"] in ("allow", "compute") or self.chance(0.3):
                rule |= pick([{"agents": ["*"]}, {"agents": ["bot-*"], "users": ["ann"]}, {"agents": ["bot-1", "desk"]}, {"users": ["*"]}, {"roles": ["finance"], "agents": ["*"]}])
            if rule["decision"] == "compute":
                rule["compute"] = {"tool": "safe_calc", "args": {"n": pick([1, 9, *TEMPLATES]), "safe": True}}
            if self.chance(0.25):
                rule["when"] = pick([*CONDITIONS])
            if self.chance(0.15):
                rule["resources"] = [pick(["doc:*", "doc:1"])]
            if self.chance(0.2):
                rule["confidence"] = {"allow_at": 0.9, "review_at": 0.5, "missing": pick(["human_review", "deny"])}
            if rule["decision"] != "deny" and self.chance(0.6):
                rule["review"] = {"by": pick([["finance"], ["legal"], ["finance", "legal"]])} if self.chance(0.4) else {}
                rule["review"] |= {"approvals": pick([1, 1, 2]), "expires_in": pick(["1s", "30m", "30m"]), "good_for": pick(["1s", "15m", "15m"])}
            if rule["decision"] != "deny" and self.chance(0.7):
                rule["limit"] = {"per": pick(["actor", "user", "acting_for", "tenant", "resource"]), "window": pick(["1h", "3s", "5s"]),
                                 "count": self.random.randint(1, 5), "over": pick(["deny", "human_review"])}
                if number == 1:
                    rule["limit"] |= {"sum": "args.n", "max": self.random.randint(5, 25)}
            rules.append(rule)
        document = {"rules": rules}
        if self.chance(0.4):
            document["mask"] = [pick(["args.n", "args.why", "args.why.*", "args.*"])]
        if name == "shadow":
            document |= {"mode": "shadow", "roles": {"finance": ["*"], "legal": ["*"]}}
        return document

    def question(self, tenant):
        """Often one that was asked before."""
        if self.asked[tenant] and self.chance(0.7):
            question = dict(self.random.choice(self.asked[tenant][-12:]))
        else:
            pick = self.random.choice
            question = {"action": pick(ACTIONS), **pick([{}, {"args": {}}, {"args": {"n": 1}}, {"args": {"n": 4}}, {"args": {"n": 9, "why": ["x", None]}}, {"args": {"n": "7"}}])}
            if self.chance(0.2):
                question["user_id"] = pick(["ann", "carol"])
            else:
                question |= {"actor": pick([*ACTORS, None]), "acting_for": pick(["ann", None, None]), "scope": pick(["read pay", "*", None, None, None, None])}
            question["resource"] = pick(["doc:1", "doc:2", None])
            question = {name: value for name, value in question.items() if value is not None}
            self.asked[tenant].append(question)
        return self.varied(question)

    def varied(self, question):
        """What an approval is not bound to may differ each time."""
        question = {name: value for name, value in question.items() if name not in ("confidence", "trace_id")}
        if "user_id" not in question and self.chance(0.4):
            question["confidence"] = self.random.choice([0.3, 0.5, 0.7, 0.9, 1])
        if self.chance(0.15):
            question["trace_id"] = f"trace-{self.random.randint(1, 20)}"
        return question

    def form(self, question):
        return "user" if "user_id" in question else self.random.choice(["agent", "agent", "tool"])

    def body(self, question, form):
        camel = {"action": "tool", "acting_for": "actingFor", "trace_id": "traceId"}
        return {camel.get(name, name) if form == "tool" else name: value for name, value in question.items()}

    def credential(self, tenant, *roles):
        """Mostly one that has such a role, or a token; now and then anybody's."""
        tokens = [name for name, who in self.model.credentials.items() if isinstance(who, Token) and who.tenant == tenant][-6:]
        if "token" in roles and tokens and self.chance(0.45):
            return self.random.choice(tokens)
        fit = [name for name in self.names[tenant] if set(roles) & set(self.model.credentials[name].roles)]
        return self.random.choice(fit if self.chance(0.95) else self.names[tenant] + self.names[TENANTS[0]])

    def review(self, tenant, *states):
        """The id of one of the newest reviews, mostly in one of these states."""
        all_of_it = [one for one in self.model.reviews.values() if one.tenant == tenant]
        some = [one for one in all_of_it if one.state in states][-8:]
        return self.random.choice(some if some and self.chance(0.85) else all_of_it[-20:]) if all_of_it else None

    # ---- steps ----

    def step_ask(self, tenant):
        question = self.question(tenant)
        form = self.form(question)
        self.call("ask", self.credential(tenant, "app" if form == "user" else "agent", "token"), "POST", ROUTES[form], self.body(question, form), question=question)

    def step_dry_run(self, tenant):
        question = self.question(tenant)
        form, query = self.form(question), self.random.choice(["?dry_run=true", "?explain=true"])
        self.call("dry_run", self.credential(tenant, "auditor", "admin"), "POST", ROUTES[form] + query, self.body(question, form), question=question)

    def owner_of(self, review, share=0.9):
        """A credential that may use it, or one that has its principal at least."""
        of_it = [name for name, who in self.model.credentials.items() if who.principal == review.principal]
        return self.random.choice([name for name in of_it if review.belongs_to(self.model.credentials[name])][-5:] if self.chance(share) else of_it[-10:])

    def step_redeem(self, tenant):
        kept = [key for key in self.model.kept if key[1] in self.model.reviews and self.model.reviews[key[1]].tenant == tenant]
        if kept and self.chance(0.15):  # a client that did not hear the answer, and one that uses the key for something else
            line, review, retry = self.random.choice(kept)
            body, _, credential = self.model.kept[(line, review, retry)]
            form, question = json.loads(body)
            question = self.varied(question) if self.chance(0.3) else question
            self.call("redeem", credential, "POST", f"/v1/queue/{review}/redeem", self.body(question, form), {"Idempotency-Key": retry},
                      reference=review, question=question, form=form, retry=retry)
            return
        review = self.review(tenant, "approved")
        if review is None:
            return
        question = self.varied(review.question) if self.chance(0.9) else self.question(tenant)
        credential = self.owner_of(review) if self.chance(0.93) else self.credential(tenant, "agent", "app", "token")
        form, retry = self.form(question), f"retry-{self.random.randint(1, 6)}" if self.chance(0.4) else None
        self.call("redeem", credential, "POST", f"/v1/queue/{self.reference(review)}/redeem", self.body(question, form),
                  {"Idempotency-Key": retry} if retry else None, reference=self.model_reference, question=question, form=form, retry=retry)

    def reference(self, review):
        traces = [trace for (_, trace), reviews in self.model.traces.items() if review.id in reviews]
        self.model_reference = self.random.choice(traces) if self.chance(0.25) else review.id
        return self.model_reference

    def step_resolve(self, tenant):
        review = self.review(tenant, "pending")
        if review:
            verb = "approve" if self.chance(0.85) else "deny"
            person = self.random.choice([None, None, "carol", "dan", "erin", "bot-1", "ann"])
            self.call("resolve", self.credential(tenant, "reviewer"), "POST", f"/v1/queue/{review.id}/{verb}", {"resolved_by": person} if person else None,
                      verb=verb, reference=review.id, person=person)

    def step_cancel(self, tenant):
        review = self.review(tenant, "pending")
        if review:
            credential = self.owner_of(review) if self.chance(0.7) else self.credential(tenant, "agent", "app")
            self.call("cancel", credential, "POST", f"/v1/queue/{review.id}/cancel", reference=review.id)

    def step_get(self, tenant):
        review = self.review(tenant, "pending", "approved", "redeemed")
        if review:
            credential = self.owner_of(review, 0.7) if self.chance(0.6) else self.credential(tenant, "reviewer", "agent", "token")
            wait = "/wait?timeout_ms=0" if self.chance(0.3) else ""
            self.call("get", credential, "GET", f"/v1/queue/{self.reference(review)}{wait}", reference=self.model_reference)

    def step_mint(self, tenant):
        body = {"scope": self.random.choice(["*", "read pay", "ship calc"]), "ttl_seconds": self.random.choice([1, 3600, 3600])}
        body |= {"actor": self.random.choice([*ACTORS, None]), "acting_for": self.random.choice(["ann", None])}
        body = {name: value for name, value in body.items() if value}
        if self.chance(0.5):
            body["max_uses"] = self.random.randint(1, 3)
        retry = f"retry-{self.random.randint(1, 6)}" if self.chance(0.3) else None
        kept = [(json.loads(body), name, key) for (name, route, key), (body, *_) in self.model.kept.items() if route == "mint" and name in self.names[tenant]]
        credential = self.credential(tenant, "agent")
        if kept and self.chance(0.2):
            body, credential, retry = self.random.choice(kept)
            body = {**body, "ttl_seconds": self.random.choice([body["ttl_seconds"], 60])}
        self.call("mint", credential, "POST", "/v1/tokens/mint", body, {"Idempotency-Key": retry} if retry else None, asked=body, retry=retry)

    def token(self, tenant):
        return self.random.choice([None, *(one.id for one in self.model.tokens.values() if one.tenant == tenant)][-10:])

    def step_revoke(self, tenant):
        token = self.token(tenant)
        if token:
            self.call("revoke", self.credential(tenant, "agent", "admin"), "DELETE", f"/v1/tokens/{token}", token_id=token)

    def step_introspect(self, tenant):
        token = self.token(tenant)
        if token:
            self.call("introspect", self.credential(tenant, "agent", "admin"), "POST", "/v1/tokens/introspect", {"token": self.model.tokens[token].secret}, token_id=token)

    def step_suspend(self, tenant):
        stopped = sorted(self.model.suspended[tenant])
        actor, verb = (self.random.choice(ACTORS), "suspend") if not stopped or self.chance(0.2) else (self.random.choice(stopped * 3 + ACTORS), "resume")
        self.call(verb, self.credential(tenant, "admin"), "POST", f"/v1/actors/{actor}/{verb}", {}, actor=actor)

    def step_policy(self, tenant):
        if self.away:
            return
        name, model = self.random.choice(DOCUMENTS), self.model
        shelf, path = model.shelves[tenant][name], f"/api/v1/policies/{name}"
        condition = self.random.choice([{"If-Match": "*"}, {"If-Match": self.random.choice(shelf.tags[-2:])}, {"If-None-Match": "*"}]) if self.chance(0.2) else {}
        what = self.random.choices(["put", "rollback", "delete", "look"], [6, 1, 0.6, 1])[0]
        if what == "put":
            document = self.changed(name, model.documents[tenant].get(name))
            more = ({"is_active": self.chance(0.6)} if self.chance(0.3) else {}) | ({"description": self.random.choice(["one", "two"])} if self.chance(0.2) else {})
            self.note(f"policy {name} of {tenant}: {more} {condition} {json.dumps(document)}")
            self.put(tenant, name, document, condition, **more)
        elif what == "rollback":
            version = self.random.randint(1, len(shelf.texts) + 1)
            self.note(f"policy {name} of {tenant}: back to {version} {condition}")
            model.policy_rollback(self.at_platform("POST", f"{path}/rollback", {"version": version, "tenant_id": tenant}, condition), tenant, name, version, condition)
        elif what == "delete":
            self.note(f"policy {name} of {tenant}: delete {condition}")
            model.policy_delete(self.at_platform("DELETE", f"{path}?tenant_id={tenant}", headers=condition), tenant, name, condition)
        self.check_policies(tenant, name)
        self.stack.wait_followed()

    def changed(self, name, old):
        """Another document, or the same with another rule, as most changes are; or the same."""
        document = self.document(name)
        if not old or self.chance(0.3):
            return document
        if self.chance(0.1):
            return old
        changed = self.random.choice(old["rules"])
        other = next((rule for rule in document["rules"] if rule["id"] == changed["id"]), changed)
        if changed["decision"] == "human_review" and self.chance(0.6):
            other = {**changed, "review": {"by": [self.random.choice(["finance", "legal"])], "approvals": self.random.randint(1, 2)}}
        return {**document, "rules": [other if rule is changed else rule for rule in old["rules"]]}

    def check_policies(self, tenant, name):
        """The list, one policy, and its versions, newest first."""
        shelves, shelf, query = self.model.shelves[tenant], self.model.shelves[tenant][name], f"?tenant_id={tenant}"
        listed = self.at_platform("GET", f"/api/v1/policies{query}").json["policies"]
        hold("policies", {"names": sorted(one for one in shelves if shelves[one].version)}, {"names": sorted(one["name"] for one in listed)})
        one = self.at_platform("GET", f"/api/v1/policies/{name}{query}")
        hold("a policy", {"status": 200, "etag": shelf.tags[-1]} if shelf.version else {"status": 404}, {"status": one.status, "etag": one.header("etag")})
        if shelf.version:
            shelf.holds(one.json)
        versions = self.at_platform("GET", f"/api/v1/policies/{name}/versions{query}").json["versions"]
        hold("versions", {"numbers": [*range(len(shelf.texts), 0, -1)][:20]}, {"numbers": [version["version"] for version in versions][:20]})
        number = self.random.randint(1, len(shelf.texts))
        hold("a version", {"content": shelf.texts[number - 1]}, self.at_platform("GET", f"/api/v1/policies/{name}/versions/{number}{query}").json)

    def step_rehire(self, tenant):
        """A key is revoked, and another one of the same name and owner takes its place; or it is rotated, and ends later."""
        if self.away:
            return
        place = self.random.randrange(4)
        name, before = self.names[tenant][place], self.overlapped.get((tenant, place))
        if before and self.model.credentials[before].expires > time.time() + 60 and not self.model.credentials[before].is_dead and self.chance(0.5):
            name = before  # whoever lost its successor's credential asks again
        old = self.model.credentials[name]
        path = f"/api/v1/keys/{old.id}"
        overlap = self.random.choice([None, None, 0, 1, 3600])
        if overlap is None:
            with self.stack.at_platform("root") as wire:
                harness.revoked(wire, f"{path}?tenant_id={tenant}")
            old.is_revoked = True
            new = self.hire(tenant, *STAFF[place])
        else:
            begun = time.monotonic()
            reply = self.at_platform("POST", f"{path}/rotate?tenant_id={tenant}", {"overlap_seconds": overlap})
            assert reply.status == 201 and reply.json["replaces"]["id"] == old.id, reply
            assert reply.json.get("behind", []) == [] or time.monotonic() - begun > 0.9, f"nobody was waited for: {reply}"
            assert "expires_at" not in reply.json, "the first of them had no end"
            new = self.hired(tenant, *STAFF[place], reply)
            old.successor, old.is_revoked = self.model.credentials[new], overlap == 0
            old.successor.previous = old
        if overlap:
            old.expires = seconds(reply.json["replaces"]["expires_at"])
            self.overlapped[tenant, place] = name
        else:
            old.is_dead = True
        self.names[tenant][place] = new
        self.note(f"rehire {new}, overlap {overlap}")
        self.stack.wait_followed()

    def step_restart(self, _):
        if self.away:
            return
        end, reactors = self.random.choice([self.stack.engine.kill, self.stack.engine.stop]), str(self.random.randint(1, 4))
        self.note(f"restart {end.__name__} {reactors} reactors")
        end()
        self.stack.engine.arguments[self.stack.engine.arguments.index("--reactors") + 1] = reactors
        self.stack.engine.start()
        for tenant in TENANTS:  # all that was there is there again
            self.step_lists(tenant)
            for trace in [trace for (of, trace), reviews in self.model.traces.items() if of == tenant and reviews][-15:]:
                self.call("get", self.names[tenant][5], "GET", f"/v1/queue/{trace}", reference=trace)

    def step_outage(self, _):
        if not self.away:
            self.note("outage of the platform")
            self.random.choice([self.stack.platform.kill, self.stack.platform.stop])()
            self.away = self.random.randint(1, 30)

    WEIGHTS = {"ask": 34, "redeem": 15, "resolve": 18, "cancel": 1.5, "get": 7, "mint": 7, "revoke": 1.5, "introspect": 4, "suspend": 3,
               "dry_run": 3, "policy": 3, "rehire": 1, "restart": 0.4, "outage": 0.3, "lists": 1}

    def go(self, steps):
        for _ in range(steps):
            self.steps += 1
            self.random.seed(f"{self.seed} {self.steps}")  # what time did to one step changes no other
            if self.away == 1:
                self.return_platform()
            self.away = max(0, self.away - 1)
            step = self.random.choices([*self.WEIGHTS], [*self.WEIGHTS.values()])[0]
            getattr(self, f"step_{step}")(self.random.choice(TENANTS))
        if self.away:
            self.return_platform()

    def return_platform(self):
        self.stack.platform.start()
        self.note("return of the platform")
        self.away = 0

    # ---- what is left of it all ----

    def pages(self, credential, path, member):
        found, cursor = [], 0
        with self.stack.at_engine(self.model.credentials[credential].secret) as wire:
            while True:
                reply = wire.get(f"{path}&cursor={cursor}")
                assert reply.status == 200, reply
                found += reply.json[member]
                cursor = reply.json["next_cursor"]
                if cursor == 0:
                    return found

    def step_lists(self, tenant):
        def looked():
            """Nothing here ends while it is looked at, or it is looked at again."""
            begun = time.time()
            found = [self.pages(self.names[tenant][who], path, member) for who, path, member in (
                (5, "/v1/queue?limit=50", "items"), (5, "/v1/queue/pending?limit=3", "items"),
                (8, "/v1/tokens?limit=50", "tokens"), (8, "/v1/actors?limit=2", "actors"))]
            is_near = any(begun - NARROW < at <= time.time() + NARROW for at in self.model.deadlines())
            return None if is_near else (begun, *found)
        begun, reviews, pending, tokens, actors = harness.eventually(looked, "nothing ends for a moment")
        self.last.append(f"-- lists of {tenant}")
        model = self.model
        model.advance(begun)
        mine = [one for one in model.reviews.values() if one.tenant == tenant]
        hold("lists", {"reviews": {one.id: one.state for one in mine}}, {"reviews": {one["id"]: one["status"] for one in reviews}})
        hold("lists", {"pending": [one.id for one in mine if one.state == "pending"]}, {"pending": [one["id"] for one in pending]})
        live = {one.id: (not model.dead(one) and one.uses != 0, one.uses) for one in model.tokens.values() if one.tenant == tenant and one.expires > model.now}
        told = {one["token_id"]: (one["active"], one.get("uses_left")) for one in tokens if one["token_id"] in live}
        hold("lists", {"tokens": live, "actors": sorted(model.suspended[tenant])}, {"tokens": told, "actors": sorted(one["actor"] for one in actors)})
        for one in reviews:
            model.item(model.reviews[one["id"]], one)

    def check_trail(self):
        stack = self.stack
        harness.eventually(lambda: not any(at < time.time() + 60 for at in self.model.deadlines()) or self.model.advance(time.time() - NARROW), "what is short is over")
        named = {"review": "review_id", "token": "token_id", "actor": "actor"}
        for tenant in TENANTS:
            right = collections.Counter({event[1:]: times for event, times in self.model.events.items() if event[0] == tenant})
            expired = sum(1 for event in right if event[0] in ("review.expired", "review.lapsed"))

            def told():
                stack.wait_published()
                self.trail = stack.events("root", tenant_id=tenant)
                return sum(1 for event in self.trail if event["kind"] in ("review.expired", "review.lapsed")) >= expired
            harness.eventually(told, "expiries are in the trail")
            found = collections.Counter()
            for event in self.trail:
                kind = event["kind"]
                if kind == "decision":
                    found[(kind, event["trace_id"], event["decision"], event["rule"], event["mode"], canonical(event.get("args")))] += 1
                elif kind.startswith("policy."):
                    found[(kind, event["policy_name"], event["policy_version"])] += 1
                elif kind.partition(".")[0] in named and kind != "token.rejected":
                    found[(kind, event[named[kind.partition(".")[0]]])] += 1
            if found != right:
                raise Difference(f"the trail of {tenant}: had to be there {right - found} and are there {found - right}")
            for trace in self.random.sample(sorted({event["trace_id"] for event in self.trail if event["kind"] == "decision"}), 20):
                with stack.at_platform("root") as wire:
                    reply = wire.get(f"/api/v1/audit/trace/{trace}?tenant_id={tenant}")
                same = [event["event_id"] for event in reversed(self.trail) if event["trace_id"] == trace]
                hold("a trace", {"events": same}, {"events": [event["event_id"] for event in reply.json["events"]]})


def test_every_answer_is_what_the_model_says(fresh):
    steps, done = 0, collections.Counter()
    print(f"\nseed {SEED} (WRIT_SEED repeats it)")
    for seed in range(SEED, SEED + WALKS):
        stack = fresh()
        stack.start()
        walk = Walk(stack, seed)
        try:
            walk.go(STEPS)
            for tenant in TENANTS:
                walk.step_lists(tenant)
            walk.check_trail()
        except (AssertionError, KeyError) as difference:
            raise AssertionError(f"WRIT_SEED={seed}, after {walk.steps} steps: {difference!r}\n{walk.story()}") from difference
        steps, done = steps + walk.steps, done + walk.done
        stack.engine.stop()
        stack.platform.stop()
        stack.close()
    print(f"{steps} steps in {WALKS} walks: " + ", ".join(f"{count} {what}" for what, count in sorted(done.items())))

"""OpenID AuthZEN Authorization API 1.0: the interop vectors, the shapes, reviews by `context.enqueue`."""

import json

import harness
import pytest

CORPUS = harness.CORPORA / "authzen"
ONE, MANY = "/access/v1/evaluation", "/access/v1/evaluations"
PEOPLE = {n: f"CiRmZD{c}2MTRkMy1jMzlhLTQ3ODEtYjdiZC04Yjk2ZjVhNTEwMGQSBWxvY2Fs"
          for n, c in (("rick@the-citadel.com", "A"), ("morty@the-citadel.com", "E"), ("summer@the-smiths.com", "I"),
                       ("beth@the-smiths.com", "M"), ("jerry@the-smiths.com", "Q"))}
ROLES = {"admin": ["rick"], "evil_genius": ["rick"], "editor": ["morty", "summer"]}
OWNS = " || ".join(f'(user == "{id}" && resource.properties.ownerID == "{mail}")' for mail, id in PEOPLE.items())
POLICY = f"""
roles:
{"".join(f"  {role}: [{', '.join(id for mail, id in PEOPLE.items() if mail.split('@')[0] in names)}]{chr(10)}" for role, names in ROLES.items())}
rules:
  - {{id: read, users: ["*"], actions: [can_read_user, can_read_todos], decision: allow}}
  - {{id: create, roles: [admin, editor], actions: [can_create_todo], decision: allow}}
  - {{id: update, roles: [evil_genius], actions: [can_update_todo], decision: allow}}
  - {{id: update-own, roles: [editor, admin], actions: [can_update_todo], decision: allow, when: '{OWNS}'}}
  - {{id: delete, roles: [admin], actions: [can_delete_todo], decision: allow}}
  - {{id: delete-own, roles: [editor, evil_genius], actions: [can_delete_todo], decision: allow, when: '{OWNS}'}}
  - {{id: senior, users: ["*"], actions: [sign], decision: allow, when: 'context.subject.level >= 3 && args.amount < 100'}}
  - {{id: reads, agents: ["*"], actions: ["get_*"], decision: allow}}
  - {{id: refunds, actions: [refund], decision: human_review, reason: A person decides.}}
  - {{id: sandbox, agents: ["*"], actions: [write], decision: compute, compute: {{tool: write_file, args: {{path: /out}}}}}}
  - {{id: safe-write, agents: ["*"], actions: [write_file], decision: allow}}
"""


@pytest.fixture(scope="module")
def todo(tmp_path_factory):
    with harness.Stack(tmp_path_factory.mktemp("authzen"), engine=["--public_url", "https://writ.example"]) as stack:
        stack.reviewer = stack.key("reviewers", ["reviewer"], reviewers=["*"], wait=False)
        stack.policy("todo", POLICY)
        yield stack
        stack.engine.stop()
        stack.platform.stop()


def asks(action="get_x", actor="bot", resource="x", **more):
    return {"subject": {"type": "agent", "id": actor}, "action": {"name": action}, "resource": {"type": "thing", "id": resource}, **more}


def posted(stack, path, body, status=200, **headers):
    with stack.at_engine() as wire:
        reply = wire.post(path, body, headers=headers)
    assert reply.status == status, (body, reply)
    return reply.json


@pytest.mark.skipif(not CORPUS.exists(), reason="the corpus authzen is not here")
@pytest.mark.parametrize("name", ["todo-01", "todo-02"])
def test_the_interop_decisions(todo, name):
    vectors, wrong = json.loads((CORPUS / f"{name}.json").read_text()), []
    for vector in vectors["evaluation"]:
        answer = posted(todo, ONE, vector["request"])
        wrong += [vector] * (answer["decision"] is not vector["expected"])
    for vector in vectors.get("evaluations", []):
        answer = posted(todo, MANY, vector["request"])
        wrong += [vector] * ([{"decision": one["decision"]} for one in answer["evaluations"]] != vector["expected"])
    assert len(vectors["evaluation"]) == 40 and not wrong, wrong


def without(body, *path):
    body = json.loads(json.dumps(body))
    inner = body
    for name in path[:-1]:
        inner = inner[name]
    del inner[path[-1]]
    return body


WRONG = [
    *[(without(asks(), *path), "missing_member") for path in
      (["subject"], ["action"], ["resource"], ["subject", "type"], ["subject", "id"], ["action", "name"], ["resource", "type"], ["resource", "id"])],
    *[({**asks(), name: value}, "wrong_type") for name in ("subject", "action", "resource", "context") for value in ("x", 1, [], None)
      if not (name == "context" and value is None)],
    *[({**asks(), name: {**asks()[name], "properties": []}}, "wrong_type") for name in ("subject", "action", "resource")],
    ({**asks(), "subject": {"type": "agent", "id": 5}}, "wrong_type"),
    ({**asks(), "subject": {"type": "agent", "id": ""}}, "out_of_range"),
    ({**asks(), "subject": {"type": "device", "id": "x"}}, "bad_value"),
    (asks(context={"enqueue": "yes"}), "wrong_type"),
    (asks(context={"subject": 1}) | {"subject": {"type": "agent", "id": "bot", "properties": {"a": 1}}}, "conflicting_member"),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_a_wrong_shape_is_refused(todo, number):
    body, code = WRONG[number]
    assert posted(todo, ONE, body, 400)["code"] == code
    alone = posted(todo, MANY, {"evaluations": [asks(), body]})["evaluations"]
    assert [one["decision"] for one in alone] == [True, False] and alone[1]["context"]["error"]["status"] == 400, alone


def test_the_outer_object_gives_defaults_and_an_empty_list_is_one_evaluation(todo):
    outer = asks(context={"a": 1})
    assert posted(todo, MANY, outer)["decision"] is True
    assert posted(todo, MANY, {**outer, "evaluations": []})["decision"] is True
    answers = posted(todo, MANY, {**outer, "evaluations": [{}, {"action": {"name": "drop"}}, {"action": {"name": "get_y"}}, 7]})["evaluations"]
    assert [one["decision"] for one in answers] == [True, False, True, False]
    for wrong in ({"evaluations": {}}, {"evaluations": [{}] * 101}, {"options": []}, {"options": {"evaluations_semantic": "some"}}):
        posted(todo, MANY, {**outer, **wrong}, 400)


@pytest.mark.parametrize("semantic, decisions", [("execute_all", [True, False, True]), ("deny_on_first_deny", [True, False]), ("permit_on_first_permit", [True])])
def test_the_three_semantics(todo, semantic, decisions):
    body = asks(options={"evaluations_semantic": semantic}, evaluations=[{}, {"action": {"name": "drop"}}, {}])
    assert [one["decision"] for one in posted(todo, MANY, body)["evaluations"]] == decisions


def test_conditions_see_the_properties_of_subject_and_action(todo):
    def signs(level, amount):
        return posted(todo, ONE, {"subject": {"type": "user", "id": "erin", "properties": {"level": level}},
                                  "action": {"name": "sign", "properties": {"amount": amount}}, "resource": {"type": "deal", "id": "1"}})["decision"]
    assert signs(3, 99) and not signs(2, 99) and not signs(3, 100)


def test_a_compute_is_false_with_its_safe_call(todo):
    answer = posted(todo, ONE, asks("write"))
    assert answer["decision"] is False and answer["context"]["safe_tool"] == "write_file" and answer["context"]["safe_args"] == {"path": "/out"}


def test_only_enqueue_opens_a_review_and_the_repeat_redeems_it_once(todo):
    def pending():
        with todo.at_engine(todo.reviewer) as wire:
            return {item["id"] for item in wire.get("/v1/queue/pending").json["items"]}
    plain = posted(todo, ONE, asks("refund"))
    assert plain["decision"] is False and plain["context"]["decision"] == "human_review" and "review_id" not in plain["context"] and not pending()
    asked = asks("refund", context={"enqueue": True, "ticket": 5})
    first = posted(todo, ONE, asked)
    review = first["context"]["review_id"]
    assert first["decision"] is False and pending() == {review}
    assert posted(todo, MANY, {"evaluations": [asked, asks()]})["evaluations"][0]["context"]["review_id"] == review
    with todo.at_engine(todo.reviewer) as wire:
        assert wire.post(f"/v1/queue/{review}/approve", {}).status == 200
    assert posted(todo, ONE, asks("refund", context={"ticket": 5}))["decision"] is False  # asking without `enqueue` spends nothing
    answers = posted(todo, MANY, {"evaluations": [asked, asks()]})["evaluations"]
    assert [one["decision"] for one in answers] == [True, True] and answers[0]["context"]["redemption_id"], answers
    again = posted(todo, ONE, asked)
    assert again["decision"] is False and again["context"]["review_id"] != review
    with todo.at_engine(todo.reviewer) as wire:
        assert wire.post(f"/v1/queue/{again['context']['review_id']}/approve", {}).status == 200
    redeemed = posted(todo, ONE, {**asked, "evaluations": [{"action": {"name": "drop"}}]})
    assert redeemed["decision"] is True, "a member that this route does not know changes nothing"


def test_the_ids_of_a_call_are_recorded_and_not_bound(todo):
    def called(n):
        return asks("refund", resource="ids", context={"enqueue": True, "tool_call_id": f"call_{n}", "conversation_id": "thread-7"})
    first = posted(todo, ONE, called(1))["context"]
    with todo.at_engine(todo.reviewer) as wire:
        assert wire.post(f"/v1/queue/{first['review_id']}/approve", {}).status == 200
    again = posted(todo, MANY, {"context": called(2)["context"], "evaluations": [asks("refund", resource="ids")]})["evaluations"][0]
    assert again["decision"] is True, "another call redeems it"
    todo.wait_published()
    for n, answer in ((1, first), (2, again["context"])):
        event = next(e for e in todo.trace(answer["trace_id"]) if e.get("request_id") == answer["request_id"])
        assert (event["tool_call_id"], event["conversation_id"]) == (f"call_{n}", "thread-7") and "context" not in event
    for member in ("tool_call_id", "conversation_id"):
        assert posted(todo, ONE, asks(context={member: 7}), 400)["field"] == f"/context/{member}"


def test_the_metadata_names_what_is_served(todo):
    with todo.at_engine() as wire:
        reply = wire.get("/.well-known/authzen-configuration")
    url = "https://writ.example"
    assert reply.json == {"policy_decision_point": url, "access_evaluation_endpoint": f"{url}{ONE}", "access_evaluations_endpoint": f"{url}{MANY}"}
    for path in ("subject", "resource", "action"):
        posted(todo, f"/access/v1/search/{path}", asks(), 404)

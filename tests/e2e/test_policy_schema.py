"""schemas/policy.schema.json, which editors complete and check documents by, says what the loader says."""

import json
import re
import subprocess

import pytest

import harness
from test_broken import FOLDER, TOLD

yaml = pytest.importorskip("yaml", reason="SKIP: python3-yaml is not installed")
jsonschema = pytest.importorskip("jsonschema", reason="SKIP: python3-jsonschema is not installed")

SCHEMA = json.loads((harness.TOP / "schemas" / "policy.schema.json").read_text())
EXAMPLES = sorted(path for pattern in ("*.yaml", "starters/*.yaml") for path in (harness.TOP / "ops" / "examples").glob(pattern))
# What only reading the whole, or compiling, can tell; and what is no YAML at all.
BEYOND_A_SCHEMA = {"type-error", "unknown-function", "duplicate-id", "unknown-variable", "expression-unclosed", "missing-and", "failing-test"}

EVERYTHING = """
description: all there is
mode: shadow
confidence: {allow_at: 1, review_at: 0, missing: deny}
roles: {finance: [carol, "*"]}
mask: [args, "context.a.*.b", resource.id]
rules:
  - id: a
    agents: ["*"]
    users: [u]
    roles: [finance]
    actions: ["get_*"]
    resources: ["db:*"]
    decision: compute
    reason: why
    when: args.n > 5
    confidence: {allow_at: 0.5, review_at: 0.5}
    compute: {tool: t, args: {a: "${args.n}", b: [1, null, {c: true}], d: "$${x}"}}
    review: {by: [finance], approvals: 16, expires_in: 30d, good_for: 24h}
    limit: {per: acting_for, window: 1s, count: 1, sum: args.n * 2.0, max: 0.5, over: human_review}
tests:
  - {request: {actor: a, tool: x, acting_for: b, resource: "a:b", args: {}, context: text, scope: "a b", confidence: 0.5}, expect: deny, rule: "token:scope"}
  - {request: {user_id: a, action: x, resource: {type: t, id: i, properties: {}}, context: {scope: 5}}, expect: deny}
  - {request: {actor: a, action: x, scope: [a]}, expect: deny}
"""


def faults(document):
    return [f"{list(e.absolute_path)}: {e.message}" for e in jsonschema.Draft202012Validator(SCHEMA).iter_errors(document)]


def loads(text, tmp_path):
    (tmp_path / "d.yaml").write_text(text)
    return subprocess.run([harness.BIN / "writ", "policy", "check", tmp_path / "d.yaml"], capture_output=True, timeout=harness.PATIENCE).returncode == 0


def test_the_schema_is_a_schema():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_each_example_is_valid_and_says_where_its_schema_is(path):
    text = path.read_text()
    where = re.match(r"# yaml-language-server: \$schema=(\S+)\n", text)
    assert where and (path.parent / where[1]).resolve() == (harness.TOP / "schemas" / "policy.schema.json").resolve()
    assert not faults(yaml.safe_load(text))


def test_all_of_the_language_is_valid(tmp_path):
    assert not faults(yaml.safe_load(EVERYTHING))
    assert loads(EVERYTHING, tmp_path)


@pytest.mark.parametrize("name", sorted(set(TOLD) - BEYOND_A_SCHEMA))
def test_an_editor_sees_what_is_wrong(name):
    """Or it sees no YAML at all."""
    try:
        document = yaml.safe_load((FOLDER / f"{name}.yaml").read_text())
    except yaml.YAMLError:
        return
    assert faults(document)


def objects(schema):
    """{path: keys} of each closed object of the schema."""
    found = {}

    def walk(node, path):
        if isinstance(node, dict):
            if "properties" in node and node.get("additionalProperties") is False:
                found[path] = node["properties"]
            if node.get("unevaluatedProperties") is False:
                of = schema["$defs"][node["$ref"].removeprefix("#/$defs/")]
                found[path] = {**of["properties"], **node.get("properties", {})}
            for key, value in node.items():
                walk(value, f"{path}/{key}")
        elif isinstance(node, list):
            for i, value in enumerate(node):
                walk(value, f"{path}/{i}")

    walk(schema, "")
    return found


def test_the_schema_and_the_loader_know_the_same_keys():
    known = set()
    for source in sorted((harness.TOP / "src" / "policy").glob("read_*.c")):
        for name, listed in re.findall(r"static const char \*const (\w*keys)\[\] = \{(.*?)\};", source.read_text(), re.S):
            known.add(frozenset(re.findall(r'"(\w+)"', listed)))
    assert {frozenset(keys) for keys in objects(SCHEMA).values()} == known


def test_an_editor_can_explain_each_key():
    """A key has a description: its own, or that of what it refers to."""
    def is_described(node):
        reference = node.get("$ref", "").removeprefix("#/$defs/")
        return "description" in node or (reference and is_described(SCHEMA["$defs"][reference]))

    missing = [f"{path}/{key}" for path, keys in objects(SCHEMA).items() for key, node in keys.items() if not is_described(node)]
    assert not missing


SMALL = "rules:\n  - {id: a, agents: [b], actions: [c], decision: allow%s}\n"


@pytest.mark.parametrize("more, wanted", [
    ("", True), (", limit: {window: 1h, count: 5}", True), (", limit: {window: 1h}", False), (", limit: {count: 5}", False),
    (", limit: {window: 1h, sum: args.n}", False), (", limit: {window: 1h, max: 5}", False), (", limit: {window: 90, count: 1}", False),
    (", limit: {window: 0s, count: 1}", False), (", limit: {window: 1h, count: 1, per: agent}", False), (", when: ''", False),
    (", when: 5", False), (", review: {approvals: 17}", False), (", review: {approvals: 0}", False), (", review: {by: []}", False),
    (", compute: {tool: x}", False), (", confidence: {allow_at: 0.5}", False), (", confidence: {allow_at: 1.5, review_at: 0}", False),
    (", users: []", False), (", roles: ['a,b']", False), (", resources: ['']", False), (", reason: ''", False), (", colour: red", False),
])
def test_schema_and_loader_agree(more, wanted, tmp_path):
    text = SMALL % more
    assert (loads(text, tmp_path), not faults(yaml.safe_load(text))) == (wanted, wanted)


@pytest.mark.parametrize("more, wanted", [
    ("mask: ['args.*.number', args.cards.0]", True), ("mask: ['args.card*']", False), ("mask: ['args.**']", False),
    ("mask: ['args.**.pin', 'args.a.**.*', 'context.**.a.**.b', resource, 'resource.*.x', 'resource.**.pin', resource.Properties.x, resource.TYPE]", True), ("mask: ['args.**.**.x']", False), ("mask: ['**.x']", False),
    ("mask: ['args.***.x']", False), ("mask: ['args.a.b.c.d.e.f.g.h.i.j.k.l.m.n.o']", True), ("mask: ['args.a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p']", False),
    ("mask: ['args.**.b.c.d.e.f.g.h.i.j.k.l.m.n.o']", True), ("mask: ['args.**.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p']", False), ("mask: ['args.a.']", False),
    ("mask: [resource.pin]", False), ("mask: [resource.types]", False), ("mask: [resource.id.x]", False), ("mask: [resource.propertiesx]", False),
    ("tests: [{request: {actor: z, action: c, context: {confidence: 1, scope: c}}, expect: deny}]", True),
    ("tests: [{request: {user_id: z, action: c, context: {confidence: 5, scope: 5}}, expect: deny}]", True),
    ("tests: [{request: {user_id: z, action: c, scope: c}, expect: deny}]", False),
    ("tests: [{request: {user_id: z, action: c, confidence: 1}, expect: deny}]", False),
    ("tests: [{request: {user_id: z, action: c, acting_for: y}, expect: deny}]", False),
    ("tests: [{request: {actor: z, action: c, context: 5}, expect: deny}]", False),
    ("tests: [{request: {actor: z, action: c, tool: c}, expect: deny}]", False),
    ("tests: [{request: {actor: z, action: c, resource: {id: x, owner: y}}, expect: deny}]", True),
    ("tests: [{request: {actor: z, action: c, resource: {id: x, type: null, owner: null, properties: null}}, expect: deny}]", True),
    ("tests: [{request: {actor: z, action: c, resource: {id: x, owner: 5}}, expect: deny}]", False),
    ("tests: [{request: {actor: z, action: c, resource: {properties: 5}}, expect: deny}]", False),
])
def test_schema_and_loader_agree_beside_the_rules(more, wanted, tmp_path):
    text = SMALL % "" + more + "\n"
    assert (loads(text, tmp_path), not faults(yaml.safe_load(text))) == (wanted, wanted)

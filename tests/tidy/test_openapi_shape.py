"""schemas/openapi.*.yaml are for generators of clients, which read less than JSON Schema allows."""

import pathlib

import pytest

yaml = pytest.importorskip("yaml")
jsonschema = pytest.importorskip("jsonschema")

SCHEMAS = pathlib.Path(__file__).resolve().parents[2] / "schemas"
# What any operation may answer before it is looked at.
EARLY = {"400", "405", "408", "413", "414", "415", "417", "431", "500", "501", "503", "505"}
METHODS = {"get", "put", "post", "delete"}


def document(name):
    return yaml.safe_load((SCHEMAS / f"openapi.{name}.yaml").read_text())


def nodes(value, path=""):
    """Every object in the document, with its path."""
    if isinstance(value, dict):
        yield path, value
        for key, inner in value.items():
            if key not in ("example", "examples"):
                yield from nodes(inner, f"{path}/{key}")
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from nodes(inner, f"{path}/{number}")


def resolved(whole, node):
    while "$ref" in node:
        found = whole
        for step in node["$ref"].removeprefix("#/").split("/"):
            found = found[step]
        node = found
    return node


def operations(whole):
    return [(operation["operationId"], operation) for item in whole["paths"].values() for method, operation in item.items() if method in METHODS]


def bodies(whole, operation):
    """What has a schema and may have an example: the request's body, and those of its answers."""
    for part in [operation.get("requestBody", {}), *operation["responses"].values()]:
        yield from resolved(whole, part).get("content", {}).values()


@pytest.mark.parametrize("name", ["engine", "platform"])
def test_no_schema_is_in_another_file(name):
    assert not [path for path, node in nodes(document(name)) if not str(node.get("$ref", "#")).startswith("#/") and "$ref" in node and isinstance(node["$ref"], str)]


def test_no_schema_of_the_engine_depends_on_if():
    assert not [path for path, node in nodes(document("engine")) if "if" in node or "then" in node]


@pytest.mark.parametrize("name", ["engine", "platform"])
def test_every_status_is_listed(name):
    whole = document(name)
    for operation_id, operation in operations(whole):
        assert "default" not in operation["responses"] and EARLY <= set(operation["responses"]), operation_id
        assert "security" in operation or "401" in operation["responses"], operation_id


def test_free_members_are_declared_and_numbers_are_bounded():
    wrong = []
    for path, node in nodes(document("engine")):
        kinds = node.get("type") if isinstance(node.get("type"), list) else [node.get("type")]
        if "object" in kinds and "properties" not in node and "additionalProperties" not in node:
            wrong.append(f"{path}: an object of free members has no additionalProperties")
        if "integer" in kinds and "minimum" not in node:
            wrong.append(f"{path}: an integer has no minimum")
        if "enum" in node and "type" not in node and not path.endswith("/not"):
            wrong.append(f"{path}: an enum has no type")
        if node.get("in") == "query" and node["schema"].get("type") == "integer" and "maximum" not in node["schema"]:
            wrong.append(f"{path}: it has no maximum")
    assert not wrong, "\n".join(wrong)


def test_every_operation_of_the_engine_has_an_example_that_fits():
    whole = document("engine")
    for operation_id, operation in operations(whole):
        examples = [(body["schema"], body["example"]) for body in bodies(whole, operation) if "example" in body]
        assert any("example" in body for body in bodies(whole, {**operation, "responses": {status: told for status, told in operation["responses"].items() if status < "3"}})), operation_id
        for schema, example in examples:
            errors = jsonschema.Draft202012Validator(schema, resolver=jsonschema.RefResolver("", whole)).iter_errors(example)
            assert [error.message for error in errors] == [], operation_id

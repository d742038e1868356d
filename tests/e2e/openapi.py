"""Answers held against schemas/openapi.*.yaml: what the tests make the programs say is what the documents say.

A Watch is told each request of the session's stack and its reply. Of answers that look the same (route, status,
code, members) it looks at the first few. It notes what does not fit, for `check` at the end.
"""

import json
import pathlib
import re
from urllib.parse import parse_qsl, unquote, urlsplit

SCHEMAS = pathlib.Path(__file__).resolve().parents[2] / "schemas"
ALIKE = 5
REFUSED_EARLY = (400, 401, 404, 405, 501)  # a path or method that no document has


def modules():
    """(yaml, jsonschema); None where one is not installed."""
    try:
        import jsonschema
        import yaml
    except ImportError:
        return None
    return yaml, jsonschema


class Watch:
    def __init__(self, programs):
        """`programs`: {address: "engine" or "platform"}."""
        yaml, self.jsonschema = modules()
        self.programs = programs
        self.documents = {name: yaml.safe_load((SCHEMAS / f"openapi.{name}.yaml").read_text()) for name in ("engine", "platform")}
        self.store = {f"https://writ.test/{name}": document for name, document in self.documents.items()}
        self.store["https://writ.test/event.schema.json"] = json.loads((SCHEMAS / "event.schema.json").read_text())
        self.seen, self.wrong, self.validators = {}, [], {}

    def find(self, program, path):
        """(document, template) of a path; a program answers the other one's, too."""
        path = "/".join(unquote(segment).replace("/", "-") for segment in path.split("/"))
        for name in (program, *(n for n in self.documents if n != program)):
            for template in sorted(self.documents[name]["paths"], key=lambda t: t.count("{")):
                if re.fullmatch(re.sub(r"\\\{.*?\\\}", "[^/]+", re.escape(template)), path):
                    return name, template
        return None, None

    def resolve(self, name, node):
        while "$ref" in node:
            found = self.documents[name]
            for step in node["$ref"].removeprefix("#/").split("/"):
                found = found[step]
            node = found
        return node

    def validator(self, name, schema):
        def absolute(node):
            if isinstance(node, dict):
                return {key: f"https://writ.test/{name}{value}" if key == "$ref" and value.startswith("#") else absolute(value)
                        for key, value in node.items()}
            return [absolute(one) for one in node] if isinstance(node, list) else node

        key = (name, json.dumps(schema, sort_keys=True))
        if key not in self.validators:
            resolver = self.jsonschema.RefResolver("https://writ.test/", {}, store=dict(self.store))
            self.validators[key] = self.jsonschema.Draft202012Validator(absolute(schema), resolver=resolver)
        return self.validators[key]

    def __call__(self, address, method, target, body, reply):
        program = self.programs.get(address)
        if program is None or method == "HEAD":
            return
        url = urlsplit(target)
        name, template = self.find(program, url.path)
        is_json = (reply.header("content-type") or "").startswith("application/json") and reply.body
        document = reply.json if is_json else None
        alike = (program, method, template, reply.status, tuple(sorted(document)) if isinstance(document, dict) else None)
        self.seen[alike] = self.seen.get(alike, 0) + 1
        if self.seen[alike] > ALIKE:
            return
        for what in self.faults(name, template, method.lower(), url.query, body, reply, document):
            self.wrong.append(f"{program}: {method} {target}: {reply.status}: {what}: {reply.body[:400]!r}")

    def faults(self, name, template, method, query, body, reply, document):
        operation = template and self.documents[name]["paths"][template].get(method)
        if not operation:
            if reply.status not in REFUSED_EARLY:
                yield "neither path nor method is in the document"
            return
        if reply.status < 300:
            listed = self.documents[name]["paths"][template].get("parameters", []) + operation.get("parameters", [])
            known = {one["name"] for one in (self.resolve(name, one) for one in listed) if one["in"] == "query"}
            for parameter, _ in parse_qsl(query, keep_blank_values=True):
                if parameter not in known:
                    yield f"the parameter {parameter} is not in the document"
            if body and "requestBody" not in operation:
                yield "the document has no body"
        told = operation["responses"].get(str(reply.status)) or operation["responses"].get("default")
        if told is None or (str(reply.status) not in operation["responses"] and str(reply.status) not in self.resolve(name, told)["description"]):
            yield "the status is not in the document"
            return
        told = self.resolve(name, told)
        for header in ("WWW-Authenticate", "Allow", "Retry-After"):
            if reply.header(header) is None and {"WWW-Authenticate": 401, "Allow": 405, "Retry-After": 503}[header] == reply.status:
                yield f"it has no {header}"
        content = told.get("content", {}).get("application/json")
        if document is None:
            return
        if content is None:
            yield "the document has no such body"
            return
        for error in self.validator(name, content["schema"]).iter_errors(document):
            yield f"/{'/'.join(map(str, error.absolute_path))}: {error.message[:300]}"

    def check(self):
        assert len(self.seen) > 1, "nothing was watched"
        assert not self.wrong, f"{len(self.wrong)} answers are not as schemas/openapi.*.yaml say:\n" + "\n".join(self.wrong[:10])

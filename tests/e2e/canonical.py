"""RFC 8785 and the contract's hashes, written a second time so that the programs are checked by
other code than their own.

Numbers follow ECMAScript's Number::toString (ECMA-262 6.1.6.1.20); an integer literal of
2^53 or more, within 64 bits, keeps its digits, as the contract says.
"""

import hashlib
import hmac
import json
import pathlib

ESCAPES = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"}

OUTCOME = ("action actor decision expires_at input_hash key_id kind mode policy_digest reason request_id "
           "review_id rule safe_args safe_tool tenant_id timestamp trace_id user_id").split()

EVENT = json.loads((pathlib.Path(__file__).resolve().parents[2] / "schemas/event.schema.json").read_text())
BOUND = set(EVENT["properties"]["binding_hash"]["description"].partition("{")[2].partition("}")[0].split(", "))


def text(value):
    out = []
    for character in value:
        if character in ESCAPES:
            out.append(ESCAPES[character])
        elif character < " ":
            out.append(f"\\u{ord(character):04x}")
        else:
            out.append(character)
    return '"' + "".join(out) + '"'


def number(value):
    """A float as ECMAScript writes it."""
    if value == 0:
        return "0"
    if value < 0:
        return "-" + number(-value)
    digits, _, exponent = repr(value).partition("e")
    whole, _, fraction = digits.partition(".")
    point = len(whole) + int(exponent or 0)
    all_digits = whole + (fraction if fraction != "0" else "")
    stripped = all_digits.lstrip("0")
    point -= len(all_digits) - len(stripped)
    digits = stripped.rstrip("0")
    count = len(digits)
    if count <= point <= 21:
        return digits + "0" * (point - count)
    if 0 < point <= 21:
        return digits[:point] + "." + digits[point:]
    if -6 < point <= 0:
        return "0." + "0" * -point + digits
    sign = "+" if point > 0 else "-"
    mantissa = digits[0] + ("." + digits[1:] if count > 1 else "")
    return f"{mantissa}e{sign}{abs(point - 1)}"


class Integer(int):
    """An integer literal that keeps its digits: 2^53 or more, in 64 bits."""


def _integer(literal):
    value = int(literal)
    try:
        number = float(literal)
    except OverflowError:
        raise ValueError(f"{literal[:40]} is beyond what can be held") from None
    return Integer(value) if 2**53 <= abs(value) and -2**63 <= value < 2**64 else number


def loads(data):
    if isinstance(data, bytes):
        data = data.decode()
    return json.loads(data, parse_int=_integer)


def canonical(value):
    """The canonical text of a value from loads() or json.loads()."""
    if value is None:
        return "null"
    if value is True:
        return "true"
    if value is False:
        return "false"
    if isinstance(value, str):
        return text(value)
    if isinstance(value, Integer):
        return str(int(value))
    if isinstance(value, int):
        return canonical(_integer(str(value)))
    if isinstance(value, float):
        return number(value)
    if isinstance(value, list):
        return "[" + ",".join(canonical(item) for item in value) + "]"
    members = sorted(value.items(), key=lambda member: member[0].encode("utf-16-be", "surrogatepass"))
    return "{" + ",".join(f"{text(key)}:{canonical(item)}" for key, item in members) + "}"


def digest(value):
    return hashlib.sha256(canonical(value).encode()).hexdigest()


def input_hash(body, salt=None):
    """inputHash of a request body as it was sent (bytes or text), or, with the record's salt, of the masked one."""
    return hashlib.sha256(canonical(loads(body)).encode() + bytes.fromhex(salt or "")).hexdigest()


def masked_body(body, event):
    """The body (a dict) as it is when it is masked, by what the event shows of it."""
    masked = dict(body)
    for name in ("args", "context"):
        if isinstance(body.get(name), (dict, str)):
            masked[name] = "[masked]" if event[name] == {"masked": True} else event[name]
    resource = body.get("resource")
    if isinstance(resource, str):
        masked["resource"] = "[masked]" if "[masked]" in canonical(event["resource"]) else resource
    elif resource is not None:
        masked["resource"] = event["resource"]
        if isinstance(event["resource"], dict):
            properties = {"properties": event["resource_properties"]} if resource.get("properties") is not None else {}
            masked["resource"] = {**resource, **event["resource"], **properties}
    return masked


def derived_key(pepper, label):
    """HKDF with SHA-256 (RFC 5869) without a salt, its first 32 bytes; `pepper` is the text of its file."""
    extracted = hmac.digest(bytes(32), bytes.fromhex(pepper.strip()), "sha256")
    return hmac.digest(extracted, label.encode() + b"\1", "sha256")


def outcome(event):
    """What outputHash is taken of, from a stored decision event (as queried: "" stands for absent)."""
    return {name: event[name] for name in OUTCOME if event.get(name) not in (None, "")}


def output_hash(event):
    return digest(outcome(event))


def sealed_bundle(pepper, text):
    """A bundle, without its closing brace, as a platform with this pepper ends it; `pepper` as above."""
    mac = hmac.new(derived_key(pepper, "writ policies and keys of engines 1"), text, "sha256").hexdigest()
    return text + b',"mac":"' + mac.encode() + b'"}'


def binding_hash(pepper, review, question, tenant, **more):
    """bindingHash of a review, recomputed from the request's body and the text of the pepper's file."""
    return hmac.new(derived_key(pepper, "writ binding of reviews 1"),
                    review.encode() + canonical(full_form(question, tenant, **more)).encode(), "sha256").hexdigest()


def full_form(question, tenant, actor=None, names=("confidence", "trace_id", "acting_for", "scope")):
    """What an approval of a request is bound to, as event.schema.json tells it; `actor` is the key's name, of an agent's.
    `names` are those that context may hold in this route's spelling."""
    given = {name: value for name, value in question.items() if value is not None}
    context, resource = given.get("context"), given.get("resource")
    bound = {name: given[name] for name in ("action", "args", "context", "user_id") if name in given}
    bound |= {"kind": "user" if "user_id" in given else "agent", "tenant_id": tenant}
    if "tool" in given:
        bound["action"] = given["tool"]
    if bound["kind"] == "agent":
        within = context if isinstance(context, dict) else {}
        acting_for, scope = (next((value for value in (given.get(name), within.get(name)) if value not in (None, "")), None) for name in names[2:])
        if isinstance(context, dict):
            bound["context"] = {name: value for name, value in context.items() if name not in names}
        bound["actor"] = given.get("actor") or actor
        if acting_for is not None:
            bound["acting_for"] = acting_for
        if scope is not None:
            bound["scope"] = [glob for glob in scope.split(" ") if glob] if isinstance(scope, str) else scope
    if isinstance(resource, str):
        kind, colon, name = resource.partition(":")
        bound["resource"] = {"type": kind, "id": name} if colon else {"id": resource}
    elif resource is not None:
        bound["resource"] = {name: value for name, value in resource.items() if value is not None}
    assert set(bound) <= BOUND
    return bound

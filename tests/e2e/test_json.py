"""JSONTestSuite and the JCS files through the real door: each file is the value of args.v."""

import pytest

import canonical
import harness

SUITE = harness.CORPORA / "jsontestsuite" / "test_parsing"
JCS = harness.CORPORA / "jcs"
AGENT = "/v1/agent/authorize"

# Ours to choose, and not a matter of encoding: numbers that a double can only round or flush are
# taken, those beyond its range are number_precision, and depth is a limit.
TAKEN = {
    "i_number_double_huge_neg_exp.json", "i_number_real_underflow.json", "i_number_too_big_pos_int.json",
}
# A byte order mark and an escaped U+0000 are bytes of the value here; the latter is allowed in args.
DUPLICATES = {"y_object_duplicated_key.json", "y_object_duplicated_key_and_value.json"}


def files(prefix):
    return sorted(SUITE.glob(f"{prefix}_*.json")) if SUITE.exists() else []


def ask(stack, value):
    with stack.at_engine() as wire:
        return wire.post(AGENT, b'{"action":"get_x","args":{"v":' + value + b"}}")


needs_suite = pytest.mark.skipif(not SUITE.exists(), reason="JSONTestSuite is not here")
needs_jcs = pytest.mark.skipif(not JCS.exists(), reason="the JCS files are not here")


@needs_suite
def test_every_file_that_must_be_accepted_is_and_hashes_as_we_hash_it(stack):
    found = files("y")
    assert len(found) == 95
    wrong = []
    for file in found:
        data = file.read_bytes()
        reply = ask(stack, data)
        if file.name in DUPLICATES:
            if (reply.status, reply.status == 400 and reply.json["code"]) != (400, "duplicate_key"):
                wrong.append((file.name, reply))
        elif reply.status != 200:
            wrong.append((file.name, reply))
        elif reply.json["input_hash"] != canonical.input_hash(b'{"action":"get_x","args":{"v":' + data + b"}}"):
            wrong.append((file.name, "input_hash"))
    assert not wrong


@needs_suite
def test_every_file_that_must_be_rejected_is(stack):
    found = files("n")
    assert len(found) == 188
    wrong = []
    for file in found:
        data = file.read_bytes()
        reply = ask(stack, data)
        allowed = {400, 413} if len(data) > 60 << 10 else {400}
        if reply.status not in allowed or not reply.json.get("code"):
            wrong.append((file.name, reply))
    assert not wrong


@needs_suite
def test_every_bad_encoding_is_rejected(stack):
    wrong = []
    for file in files("i"):
        if not file.name.startswith(("i_string", "i_object_key_lone", "i_structure_UTF-8_BOM")):
            continue
        reply = ask(stack, file.read_bytes())
        if reply.status != 400:
            wrong.append((file.name, reply))
    assert not wrong


@needs_suite
def test_numbers_and_depth_that_are_ours_to_choose_are_decided(stack):
    wrong = []
    for file in files("i"):
        if not file.name.startswith(("i_number", "i_structure_500")):
            continue
        reply = ask(stack, file.read_bytes())
        if file.name in TAKEN:
            expected = (200, None)
        elif file.name.startswith("i_number"):
            expected = (400, "number_precision")
        else:
            expected = (400, "too_deep")
        if (reply.status, reply.json.get("code")) != expected:
            wrong.append((file.name, expected, reply))
    assert not wrong


@needs_jcs
def test_the_canonicalization_pairs_hash_as_their_outputs(stack):
    pairs = sorted((JCS / "input").glob("*.json"))
    assert len(pairs) == 6
    for file in pairs:
        with stack.at_engine() as wire:
            body = b'{"action":"get_x","args":{"v":' + file.read_bytes() + b"}}"
            expected = b'{"action":"get_x","args":{"v":' + (JCS / "output" / file.name).read_bytes().strip() + b"}}"
            reply = wire.post(AGENT, body)
            assert reply.status == 200, (file.name, reply)
            assert reply.json["input_hash"] == canonical.input_hash(body) == \
                canonical.hashlib.sha256(expected).hexdigest(), file.name


@needs_jcs
def test_a_thousand_numbers_hash_as_ecmascript_writes_them(stack):
    texts = [line.split(",")[1] for line in (JCS / "numbers-1k.txt").read_text().split()]
    with stack.at_engine() as wire:
        for start in range(0, len(texts), 100):
            part = texts[start:start + 100]
            body = ('{"action":"get_x","args":{"v":[' + ",".join(part) + "]}}").encode()
            reply = wire.post(AGENT, body)
            assert reply.status == 200, reply
            # The texts are canonical already, so the body is: it hashes as it stands.
            assert reply.json["input_hash"] == canonical.hashlib.sha256(body).hexdigest(), part


@pytest.mark.parametrize("literal, canonical_text", [
    ("9007199254740992", "9007199254740992"), ("9007199254740993", "9007199254740993"),
    ("18446744073709551615", "18446744073709551615"), ("-9223372036854775807", "-9223372036854775807"),
    ("1152921504606846976", "1152921504606846976"), ("-9223372036854775808", "-9223372036854775808"),
    ("100000000000000000000", "100000000000000000000"), ("1e21", "1e+21"), ("1.0", "1"), ("-0", "0"), ("-0.0", "0"),
    ("0.000001", "0.000001"), ("1e-7", "1e-7"), ("5e-324", "5e-324"), ("4.35", "4.35"), ("1E400", None), ("-1e309", None),
    ("18446744073709551617", None), ("123456789012345678901234567890", None),
])
def test_a_number_is_canonical_or_refused(stack, literal, canonical_text):
    reply = ask(stack, literal.encode())
    if canonical_text is None:
        assert (reply.status, reply.json["code"]) == (400, "number_precision"), reply
        assert reply.json["field"] == "/args/v" and "args" in reply.json["error"], reply
    else:
        expected = f'{{"action":"get_x","args":{{"v":{canonical_text}}}}}'
        assert reply.status == 200, reply
        assert reply.json["input_hash"] == canonical.hashlib.sha256(expected.encode()).hexdigest()

"""clients/typescript against schemas/client-vectors.json, and changed copies of it that run what they should not.

All cases are played at the same time, by one program (clients/typescript/test/vectors.mjs).
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

import node

TOP, CLIENT = node.TOP, node.CLIENT
CASES = [case["name"] for case in json.loads((TOP / "schemas" / "client-vectors.json").read_text())["cases"]]

# What the change makes the client do, the case that finds it, and the file with its changes.
MUTANTS = {
    "a deny runs": ("deny_runs_nothing", "client.js", [("        default:\n            throw new Denied(", "        default:\n            return callOf(tool, body[\"args\"], decision);\n            throw new Denied(")]),
    "an unknown word runs": ("a_decision_word_that_is_not_known_runs_nothing", "answer.js", [('m.word("decision", VERDICTS)', '(VERDICTS.has(m.get("decision")) ? m.get("decision") : "allow")')]),
    "a missing word runs": ("a_missing_decision_runs_nothing", "answer.js", [('m.word("decision", VERDICTS)', 'm.word("decision", VERDICTS, "allow")')]),
    "allowed is not read": ("an_allow_that_is_not_allowed_runs_nothing", "answer.js", [('m.is("allowed", word === "allow");', "")]),
    "compute is not read": ("an_allow_that_is_a_compute_runs_nothing", "answer.js", [('m.is("compute", word === "compute");', "")]),
    "requires_human_review is not read": ("an_allow_that_requires_a_person_runs_nothing", "answer.js", [('m.is("requires_human_review", word === "human_review");', "")]),
    "a dry run runs": ("a_dry_run_runs_nothing", "answer.js", [('m.is("mode", "live");', "")]),
    "another trace runs": ("another_trace_runs_nothing", "answer.js", [('m.is("trace_id", asked["trace_id"]);', ";")]),
    "another request's answer runs": ("another_requests_answer_runs_nothing", "answer.js", [('reply.headers["x-request-id"] !== requestId', "false")]),
    "an answer without a request runs": ("an_answer_without_a_request_runs_nothing", "answer.js", [('requestId: m.text("request_id")', 'requestId: textOr(m.get("request_id"))')]),
    "a replayed answer runs": ("a_replayed_first_answer_runs_nothing", "answer.js", [("if (!answer.repeated)", "if (false)")]),
    "a body of another type runs": ("an_html_answer_runs_nothing", "answer.js", [("if (!/^application\\/json", "if (false && !/^application\\/json")]),
    "a compressed body runs": ("a_compressed_answer_runs_nothing", "answer.js", [('reply.headers["content-encoding"] !== undefined', "false")]),
    "a compute runs the original call": ("compute_runs_the_safe_call", "client.js", [("return callOf(safe, decision.safeArgs ?? undefined, decision);", 'return callOf(tool, body["args"], decision);')]),
    "absent safe arguments are none": ("a_compute_without_safe_args_runs_nothing", "answer.js", [('m.object("safe_args")', '(m.get("safe_args") ?? {})')]),
    "an unknown tool is replaced by the one that was asked for": ("a_compute_with_a_tool_that_is_not_here_runs_nothing", "client.js",
        [("if (safe !== tool && !tools.has(safe))", "if (false)"), ("const tool = tools.get(call.tool);", "const tool = tools.get(call.tool) ?? [...tools.values()][0];")]),
    "a denied review is redeemed": ("a_review_that_is_denied_runs_nothing", "client.js", [('if (status === "approved" || (', 'if (true || status === "approved" || (')]),
    "another review's approval counts": ("another_reviews_answer_runs_nothing", "answer.js", [('m.is("id", reviewId);', "")]),
    "an approval runs without its redemption": ("an_approval_alone_runs_nothing", "client.js", [("const { key, ids, isKnown } =", 'return { word: "allow" };\n        const { key, ids, isKnown } =')]),
    "a redeemed review is redeemed again": ("a_redemption_that_ran_is_not_run_again_by_resume", "client.js", [('(status === "redeemed" && this.#doubts.has(reviewId))', '(status === "redeemed")')]),
    "a review's id leads to another route": ("a_resume_with_an_id_that_is_a_path_asks_nothing", "answer.js", [("&& REVIEW_ID.test(value)", "")]),
    "an error with an allow in it runs": ("a_403_runs_nothing", "client.js", [("if (reply.status === wanted)", "if (reply.status < 500)")]),
    "a 500 with an allow in it runs": ("a_500_runs_nothing", "client.js", [("if (reply.status === wanted)", "if (reply.status !== 429 && reply.status !== 503)")]),
    "the caller's own object runs": ("arguments_changed_while_the_engine_decides_do_not_run", "client.js", [('const whole = copy(body, "request");', "const whole = body;")]),
    "an outage runs": ("a_closed_port_runs_nothing", "client.js", [('this.#options.onError !== "open" || ', "")]),
    "open runs for every error": ("on_error_open_runs_nothing_for_a_malformed_answer", "client.js", [(" || !error.outage ||", " ||")]),
    "an allow is kept": ("an_allow_is_never_kept", "client.js", [("        return this.#breaker.call(async", "        return this.kept ??= this.#breaker.call(async")]),
    "calls share one key": ("each_call_has_a_key_of_its_own", "client.js", [('path: "/v1/agent/authorize", key: crypto.randomUUID()', 'path: "/v1/agent/authorize", key: "one"')]),
    "a cut answer runs": ("a_chunked_answer_without_its_end_runs_nothing", "wire.js",
                          [('answer.on("error", broken);', 'answer.on("error", () => answer.emit("end"));'), ('if (!answer.complete)\n                        return end(', "if (false)\n                        return end(")]),
    "any certificate is good": ("tls_wrong_name_runs_nothing", "wire.js", [("rejectUnauthorized: true", "rejectUnauthorized: false")]),
    "an endless answer is read": ("an_oversized_answer_runs_nothing", "wire.js", [("if (size > ANSWER_MAX)", "if (false)")]),
    "bytes that are not UTF-8 are read": ("invalid_utf8_runs_nothing", "wire.js", [("fatal: true", "fatal: false")]),
    "the last of two members counts": ("a_decision_given_twice_runs_nothing", "json.js", [("if (Object.hasOwn(members, name))", "if (false)")]),
    "text after the value is read over": ("trailing_text_runs_nothing", "json.js", [("at === text.length ?", "true ?")]),
}


needs_node = pytest.mark.skipif(node.version() < 20, reason="SKIP: the client needs Node.js 20 or newer")


def mutant(folder, file, changes):
    """A copy of the client with these changes; its dist."""
    shutil.copytree(CLIENT / "dist", folder / "dist")
    shutil.copy(CLIENT / "package.json", folder)
    path = folder / "dist" / file
    text = path.read_text()
    for old, new in changes:
        assert text.count(old) == 1, f"{file} has {text.count(old)} times: {old}"
        text = text.replace(old, new)
    path.write_text(text)
    return str(folder / "dist")


@pytest.fixture(scope="session")
def played(tmp_path_factory):
    """{(dist, case): problems} of all cases and all mutants; dist is "" for the client itself."""
    folder = tmp_path_factory.mktemp("mutants")
    plays = [{"dist": str(CLIENT / "dist"), "case": name} for name in CASES]
    for number, (case, file, changes) in enumerate(MUTANTS.values()):
        (folder / str(number)).mkdir()
        plays.append({"dist": mutant(folder / str(number), file, changes), "case": case})
    done = subprocess.run(["node", CLIENT / "test" / "vectors.mjs", "-"], input=json.dumps(plays), capture_output=True, text=True,
                          env={**os.environ, "PYTHON": sys.executable}, timeout=300)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    found = {}
    for line in map(json.loads, done.stdout.splitlines()):
        number = "" if line["dist"] == str(CLIENT / "dist") else pathlib.Path(line["dist"]).parent.name
        found[number, line["case"]] = line["problems"]
    return found


@needs_node
@pytest.mark.parametrize("case", CASES)
def test_the_client_passes(played, case):
    assert played["", case] == []


@needs_node
@pytest.mark.parametrize("change", MUTANTS)
def test_a_client_is_caught_in_which(played, change):
    number = str(list(MUTANTS).index(change))
    assert played[number, MUTANTS[change][0]], f"the case {MUTANTS[change][0]} passes, although {change}"


OWN = re.findall(r'^test\("(.*?)"', (CLIENT / "test" / "client.test.mjs").read_text(), re.M)


@pytest.fixture(scope="session")
def own():
    """{test: whether it passed} of the client's own tests, and all that they printed."""
    done = subprocess.run(["node", "--test", "--test-reporter=tap", CLIENT / "test" / "client.test.mjs"], capture_output=True, text=True, timeout=300)
    return {name: word == "ok" for word, name in re.findall(r"^(ok|not ok) \d+ - (.*)$", done.stdout, re.M)}, done.stdout


@needs_node
@pytest.mark.parametrize("name", OWN)
def test_of_the_client_itself(own, name):
    passed, output = own
    assert passed.get(name), output

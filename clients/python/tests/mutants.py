"""Clients that fail open: each is this client with one line changed, and the vectors have to catch it.

    mutants.py          runs each with the cases that are meant to catch it
    mutants.py --all    runs each with all cases
    mutants.py --json   prints {NAME: null, or what happened}
"""

import json
import logging
import multiprocessing
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import anyio.lowlevel  # noqa: F401  (so that each process has these already)
import httpx  # noqa: F401

HERE = pathlib.Path(__file__).resolve().parent
PACKAGE = HERE.parent / "writ_client"
sys.path.insert(0, str(HERE))

ANSWERS, CLIENT, TRANSPORT, VALUES = "answers.py", "client.py", "transport.py", "values.py"

# what the mutant takes for a permission: (file, line, changed line, cases that catch it)
MUTANTS = {
    "an unreachable engine": (CLIENT, "if not (error.outage and self.on_error == \"open\"):", "if not error.outage:",
                              ["a_closed_port_runs_nothing", "an_address_that_does_not_answer_runs_nothing"]),
    "any failure, where on_error is open": (CLIENT, "if not (error.outage and self.on_error == \"open\"):", "if self.on_error != \"open\":",
                                            ["on_error_open_runs_nothing_for_a_malformed_answer", "on_error_open_runs_nothing_for_a_401"]),
    "an answer that is not 200": (ANSWERS, "    if answer.status != 200:\n        raise error_of(answer)\n    members = read_members(answer)\n    if answer.headers.get(\"x-request-id\")",
                                  "    members = read_members(answer)\n    if answer.headers.get(\"x-request-id\")", ["a_500_runs_nothing", "a_403_runs_nothing", "a_307_is_not_followed"]),
    "a redirect's target": (TRANSPORT, "follow_redirects=False", "follow_redirects=True", ["a_307_is_not_followed"]),
    "any content type": (ANSWERS, "if media != \"application/json\":", "if False:", ["an_html_answer_runs_nothing"]),
    "a content type that begins right": (ANSWERS, "if media != \"application/json\":", "if not media.startswith(\"application/json\"):",
                                         ["a_content_type_that_only_begins_right_runs_nothing"]),
    "another request's answer": (ANSWERS, "if answer.headers.get(\"x-request-id\") != answer.request_id:", "if False:", ["another_requests_answer_runs_nothing"]),
    "an answer of any size": (TRANSPORT, "if len(whole) > BODY_MAX:", "if False:", ["an_oversized_answer_runs_nothing"]),
    "the second of two decisions": (VALUES, "if len(found) != len(pairs):", "if False:", ["a_decision_given_twice_runs_nothing"]),
    "text that is nearly JSON": (VALUES, "parse_constant=_constant, ", "", ["a_nan_runs_nothing"]),
    "every word but deny": (ANSWERS, "if not isinstance(word, str) or word not in WORDS:", "word = word if word in WORDS[1:] else \"allow\"\n    if False:",
                            ["a_decision_word_that_is_not_known_runs_nothing", "a_missing_decision_runs_nothing"]),
    "a word in any case": (ANSWERS, "    word = members.get(\"decision\")\n", "    word = str(members.get(\"decision\")).strip().lower()\n",
                           ["a_decision_word_in_capitals_runs_nothing", "a_decision_word_with_a_blank_runs_nothing"]),
    "decision alone": (ANSWERS, "if members.get(member) is not (word == means):", "if False:", ["an_allow_that_is_not_allowed_runs_nothing", "a_missing_allowed_runs_nothing"]),
    "what is nearly true": (ANSWERS, "if members.get(member) is not (word == means):", "if bool(members.get(member)) != (word == means):",
                            ["allowed_as_text_runs_nothing", "allowed_as_a_number_runs_nothing"]),
    "a dry run": (ANSWERS, "if members.get(\"mode\") != \"live\":", "if False:", ["a_dry_run_runs_nothing"]),
    "an answer from before": (ANSWERS, "if permits and \"replayed\" in members and", "if False and", ["a_replayed_first_answer_runs_nothing"]),
    "a compute as the original call": (CLIENT, "return Call(decision.safe_tool, decision.safe_args, decision)", "return Call(asked[\"action\"], asked[\"args\"], decision)",
                                       ["compute_runs_the_safe_call"]),
    "a compute without its safe call": (ANSWERS, "if not isinstance(tool, str) or not tool or not isinstance(args, dict):\n        raise malformed(\"a compute has no safe_tool or no safe_args\")",
                                        "if not isinstance(tool, str) or not tool or not isinstance(args, dict):\n        return Decision(**{**decision.__dict__, \"word\": \"allow\"})",
                                        ["a_compute_without_a_safe_tool_runs_nothing", "a_compute_whose_safe_args_are_text_runs_nothing"]),
    "a safe tool that is not here, as the original": (CLIENT, "raise NoDecision(f\"The safe call uses {decision.safe_tool!r}, which is no tool of this agent.\")",
                                                      "return Call(asked[\"action\"], asked[\"args\"], decision)", ["a_compute_with_a_tool_that_is_not_here_runs_nothing"]),
    "a deny": (CLIENT, "raise Denied(decision.reason or \"The engine denies this call.\", decision.rule)", "return Call(asked[\"action\"], asked[\"args\"], decision)", ["deny_runs_nothing"]),
    "a review, at once": (CLIENT, "status = \"approved\" if approved else await self._wait(review_id)",
                          "return Decision(\"allow\", \"\", \"\", \"\", \"\")", ["a_review_that_is_denied_runs_nothing"]),
    "an approval, without redeeming it": (CLIENT, "            return await self._redeem(review_id, asked)\n", "            return Decision(\"allow\", \"\", \"\", \"\", \"\")\n",
                                          ["an_approval_alone_runs_nothing"]),
    "a review that is over, unless it is denied": (CLIENT, "if status == \"approved\" or (status == \"redeemed\" and review_id in self._doubts):", "if status not in (\"denied\", \"pending\"):",
                                                   ["a_review_that_is_expired_runs_nothing", "a_review_that_is_lapsed_runs_nothing"]),
    "another review's approval": (ANSWERS, "if members.get(\"id\") != review_id:", "if False:", ["another_reviews_answer_runs_nothing"]),
    "any state of a review": (ANSWERS, "if not isinstance(status, str) or status not in STATUSES:", "status = status if status in STATUSES else \"approved\"\n    if False:",
                              ["a_review_with_a_status_that_is_not_known_runs_nothing"]),
    "an id that is a path": (ANSWERS, "if not isinstance(value, str) or not REVIEW_ID.fullmatch(value):", "if not isinstance(value, str):",
                             ["a_review_whose_id_is_a_path_runs_nothing"]),
    "a redemption that another one used": (CLIENT, "if known is not None:  # an", "if True:  # an", ["a_redemption_replayed_at_the_first_attempt_runs_nothing"]),
    "a redemption, twice": (CLIENT, "return read_decision(answer, asked.get(\"trace_id\"))\n        except NoDecision as error:", "self._doubt(review_id, key)\n            return read_decision(answer, asked.get(\"trace_id\"))\n        except NoDecision as error:",
                            ["a_redemption_that_ran_is_not_run_again_by_resume"]),
    "arguments as they are now": (CLIENT, "body: Dict[str, Any] = frozen({\"action\": tool, \"args\": dict(args),", "body: Dict[str, Any] = ({\"action\": tool, \"args\": args,",
                                  ["arguments_changed_while_the_engine_decides_do_not_run", "arguments_changed_while_a_person_decides_do_not_run"]),
    "the allow from before": (CLIENT, "        self._transport.pause.check()\n", "        if \"kept\" in self.__dict__: return self.kept\n        self._transport.pause.check()\n        self.kept = await self._decide(\"/v1/agent/authorize\", asked, str(uuid.uuid4()), Deadline(self.deadline)); return self.kept\n",
                              ["an_allow_is_never_kept"]),
    "a certificate of anybody": (TRANSPORT, "ssl.create_default_context(cafile=ca_file) if", "ssl._create_unverified_context() if",
                                 ["tls_unknown_authority_runs_nothing", "tls_expired_runs_nothing"]),
    "a certificate for another name": (TRANSPORT, "        self.pause = Pause(cooldown)\n", "        self.pause = Pause(cooldown)\n        if self.verify: self.verify.check_hostname = False\n",
                                       ["tls_wrong_name_runs_nothing"]),
    "a wrong certificate as an outage": (TRANSPORT, "raise NoDecision(f\"TLS with the engine failed: {error}\") from error", "raise NotSent(str(error)) from error",
                                         ["on_error_open_runs_nothing_for_a_wrong_certificate"]),
}

def verdict(name, everything):
    """None if the vectors catch this mutant, else what happened. It runs in a process of its own, which imports the mutant."""
    file, old, new, cases = MUTANTS[name]
    with tempfile.TemporaryDirectory(prefix="writ-mutant-") as folder:
        shutil.copytree(PACKAGE, pathlib.Path(folder) / "writ_client", ignore=shutil.ignore_patterns("__pycache__"))
        path = pathlib.Path(folder) / "writ_client" / file
        text = path.read_text()
        if text.count(old) != 1:
            return f"{file} has {text.count(old)} times: {old}"
        path.write_text(text.replace(old, new))
        os.environ["WRIT_CLIENT_FOLDER"] = folder
        sys.dont_write_bytecode = True
        logging.disable()
        import vectors

        found = vectors.outcomes(["async"], [case for case in vectors.VECTORS["cases"] if everything or case["name"] in cases])
        red = {case for (_, case), problems in found.items() if problems}
        return None if red >= set(cases) else f"these cases pass: {set(cases) - red}"


def verdicts(everything=False):
    """{name: None or what happened}"""
    assert "writ_client" not in sys.modules, "a process that has the client cannot import its mutants"
    server = subprocess.Popen([sys.executable, HERE.parents[1] / "vector_server.py"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    os.environ["WRIT_VECTOR_SERVER"] = json.loads(server.stdout.readline())["url"]
    with server, multiprocessing.get_context("fork").Pool(2 * os.cpu_count(), maxtasksperchild=1) as pool:
        return dict(zip(MUTANTS, pool.starmap(verdict, [(name, everything) for name in MUTANTS], chunksize=1)))


def main():
    found = verdicts("--all" in sys.argv)
    if "--json" in sys.argv:
        print(json.dumps(found))
        return 0
    alive = {name: text for name, text in found.items() if text}
    for name, text in alive.items():
        print(f"ALIVE {name}: {text}")
    print(f"{len(found) - len(alive)} mutants caught, {len(alive)} alive")
    return 1 if alive else 0


if __name__ == "__main__":
    sys.exit(main())

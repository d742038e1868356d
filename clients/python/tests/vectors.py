"""Runs the cases of schemas/client-vectors.json against this client, beside each other.

    vectors.py [async|sync] [CASE ...]      prints each case that fails, and ends with status 1 if one does
    vectors.py --json                       prints {"async NAME": [what was wrong]} of all cases
"""

import asyncio
import concurrent.futures
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parents[2]
sys.path.insert(0, os.environ.get("WRIT_CLIENT_FOLDER", str(HERE.parent)))

import writ_client  # noqa: E402

VECTORS = json.loads((TOP / "schemas" / "client-vectors.json").read_text())
PATIENCE = 40
SIDE_BY_SIDE = 48


class Server:
    """clients/vector_server.py, running; or the one of another program, whose address is in WRIT_VECTOR_SERVER."""

    def __enter__(self):
        self.process, self.url = None, os.environ.get("WRIT_VECTOR_SERVER")
        if self.url:
            return self
        self.process = subprocess.Popen([sys.executable, TOP / "clients" / "vector_server.py"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.url = json.loads(self.process.stdout.readline())["url"]
        return self

    def __exit__(self, *_):
        if self.process is None:
            return
        self.process.stdin.close()
        self.process.wait(PATIENCE)
        self.process.stdout.close()

    def ask(self, method, path, members=None):
        request = urllib.request.Request(self.url + path, method=method, data=json.dumps(members).encode() if members else None)
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return json.load(answer)


class Driver:
    """One case: what its steps did, as text of what was wrong."""

    def __init__(self, server, case):
        self.server, self.case, self.problems, self.ran = server, case, [], []

    def client(self, kind, play):
        settings = {**VECTORS["client"], **self.case.get("client", {})}
        client = kind(play["url"], settings["key"], deadline=settings["deadline_ms"] / 1000, wait=settings["wait_ms"] / 1000,
                      cooldown=settings["cooldown_ms"] / 1000, on_error=settings["on_error"], token=settings.get("token"), ca_file=play.get("ca_file"))
        for name in VECTORS["tools"]:
            client.tools[name] = self.tool(name)
        return client

    def tool(self, name):
        def record(**args):
            self.ran.append({"tool": name, "args": args})
            return "done"
        return record

    @staticmethod
    def parts(step):
        members = {key: value for key, value in step.items() if key not in ("do", "tool", "args", "outcome", "ran", "reason", "change_args")}
        return step["tool"], json.loads(json.dumps(step["args"])), members

    def change(self, play, args, step):
        """While the server holds: the caller changes its own object."""
        try:
            self.server.ask("GET", f"/plays/{play['play']}/held")
        except TimeoutError:
            self.problems.append("the call did not ask the server")
            return
        args.clear()
        args.update(step["change_args"])
        self.server.ask("POST", f"/plays/{play['play']}/go")

    def judge(self, step, outcome):
        """`outcome` is what run() returned or raised."""
        kinds = [(writ_client.Denied, "denied"), (writ_client.ReviewPending, "pending"), (writ_client.NoDecision, "no_decision")]
        got = "ran" if outcome == "done" else next((word for kind, word in kinds if isinstance(outcome, kind)), repr(outcome))
        if got != step["outcome"]:
            self.problems.append(f"the outcome is {got} ({outcome}), expected {step['outcome']}")
        if self.ran != step.get("ran", []):
            self.problems.append(f"it ran {self.ran}, expected {step.get('ran', [])}")
        for member in ("reason", "review_id"):
            if step["do"] == "call" and member in step and getattr(outcome, member, None) != step[member]:
                self.problems.append(f"{member} is {getattr(outcome, member, None)}, expected {step[member]}")
        self.ran.clear()

    def report(self, play):
        return [*self.problems, *self.server.ask("DELETE", f"/plays/{play['play']}")["problems"]]


def caller(step, members):
    """The review that a step names is what it resumes only for `resume`; for `call` it is what the error has to name."""
    return members if step["do"] == "resume" else {key: value for key, value in members.items() if key != "review_id"}


async def play_async(server, case):
    driver = Driver(server, case)
    play = await asyncio.to_thread(server.ask, "POST", "/plays", {"case": case["name"]})
    client = driver.client(writ_client.AsyncClient, play)
    for step in case["steps"]:
        if step["do"] == "pause":
            await asyncio.sleep(step["ms"] / 1000)
        elif step["do"] == "new_client":
            client = driver.client(writ_client.AsyncClient, play)
        else:
            tool, args, members = driver.parts(step)
            task = asyncio.ensure_future(client.run(tool, args, **caller(step, members)))
            if "change_args" in step:
                await asyncio.to_thread(driver.change, play, args, step)
            outcome = (await asyncio.gather(asyncio.wait_for(task, PATIENCE), return_exceptions=True))[0]
            driver.judge(step, outcome)
    await client.close()
    return await asyncio.to_thread(driver.report, play)


def play_sync(server, case):
    driver = Driver(server, case)
    play = server.ask("POST", "/plays", {"case": case["name"]})
    client = driver.client(writ_client.Client, play)
    for step in case["steps"]:
        if step["do"] == "pause":
            time.sleep(step["ms"] / 1000)
        elif step["do"] == "new_client":
            client = driver.client(writ_client.Client, play)
        else:
            tool, args, members = driver.parts(step)
            helper = threading.Thread(target=driver.change, args=(play, args, step)) if "change_args" in step else None
            if helper:
                helper.start()
            try:
                outcome = client.run(tool, args, **caller(step, members))
            except Exception as error:  # what it raised is what is judged
                outcome = error
            if helper:
                helper.join()
            driver.judge(step, outcome)
    client.close()
    return driver.report(play)


def all_async(server, cases):
    async def one(case, turn):
        async with turn:
            return await play_async(server, case)

    async def every():
        asyncio.get_running_loop().set_default_executor(concurrent.futures.ThreadPoolExecutor(2 * SIDE_BY_SIDE))
        turn = asyncio.Semaphore(SIDE_BY_SIDE)
        return await asyncio.gather(*(one(case, turn) for case in cases))

    return asyncio.run(every())


def all_sync(server, cases):
    with concurrent.futures.ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        return list(pool.map(lambda case: play_sync(server, case), cases))


def outcomes(kinds=("async", "sync"), cases=None):
    """{(kind, name): [what was wrong]}"""
    cases = cases or VECTORS["cases"]
    found = {}
    with Server() as server:
        for kind in kinds:
            results = {"async": all_async, "sync": all_sync}[kind](server, cases)
            found.update({(kind, case["name"]): problems for case, problems in zip(cases, results)})
    return found


def main():
    if sys.argv[1:] == ["--json"]:
        print(json.dumps({" ".join(key): problems for key, problems in outcomes().items()}))
        return 0
    kinds = [word for word in sys.argv[1:] if word in ("async", "sync")] or ["async", "sync"]
    names = [word for word in sys.argv[1:] if word not in ("async", "sync")]
    cases = [case for case in VECTORS["cases"] if not names or case["name"] in names]
    assert not names or len(cases) == len(names), f"no cases have these names: {set(names) - {case['name'] for case in cases}}"
    start = time.monotonic()
    found = outcomes(kinds, cases)
    failed = {name: problems for name, problems in found.items() if problems}
    for (kind, name), problems in failed.items():
        print(f"FAIL {kind} {name}: " + "; ".join(problems))
    print(f"{len(found) - len(failed)} cases passed, {len(failed)} failed, in {time.monotonic() - start:.1f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main())

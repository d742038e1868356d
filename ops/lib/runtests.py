"""Runs the tests of this project and adds up what every runner counted.

    ops/test                 everything, each fault in a short form (minutes)
    ops/test --long          the full counts; resumable (hours)
    ops/test --only NAME     unit, tidy, conformance, clients, e2e, integration or coding alone
    ops/test --build DIR     tests the programs of this build directory, as it is

The C tests run under ctest and their cmocka cases are counted one by one; the tests of whole
programs run under pytest. --long keeps what it finished in build/long/state.json and goes on from
there; it starts afresh when a source file changed, because old results would prove nothing.

The last line is always `N passed, N failed, N skipped`, over all runners.
"""

import argparse
import concurrent.futures
import functools
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree as ElementTree

TOP = pathlib.Path(__file__).resolve().parents[2]
LONG = TOP / "build" / "long"
FLEET_PROGRESS = LONG / "fleet.progress"
FLEET_FAULTS_PROGRESS = LONG / "fleet-faults.json"
EVIDENCE_PROGRESS = LONG / "evidence-clean.json"  # where its test keeps it
TAMPERING_PROGRESS = LONG / "tampering.json"  # of tests/integration/test_tampering.py
JOBS = str(os.cpu_count() or 2)
FUZZ_SECONDS = int(os.environ.get("WRIT_FUZZ_SECONDS", "600"))  # for each target


class Counts:
    """What one runner, or all of them, counted."""

    def __init__(self, passed=0, failed=0, skipped=0):
        self.passed, self.failed, self.skipped = passed, failed, skipped

    def add(self, other):
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped

    def __str__(self):
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


def say(text):
    print(text, flush=True)


def run(command, **options):
    """Runs a command in the project's folder; its exit status."""
    options.setdefault("cwd", TOP)
    return subprocess.run([str(part) for part in command], **options).returncode


def one(passed):
    return Counts(passed=1) if passed else Counts(failed=1)


# ---- building ----


def build(preset, targets=()):
    """Configures and builds a preset; None if that failed, else its directory."""
    folder = TOP / "build" / preset
    log = TOP / "build" / f"{preset}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    with open(log, "w") as out:
        status = run(["ops/lib/configure", preset], stdout=out, stderr=subprocess.STDOUT)
        if status == 0:
            status = run(["ninja", "-C", folder, *targets], stdout=out, stderr=subprocess.STDOUT)
    if status != 0:
        say(log.read_text()[-8000:])
        say(f"FAIL build: preset {preset} does not build; the whole output is in build/{preset}.log")
        return None
    say(f"built {preset} in {time.monotonic() - start:.0f} s")
    return folder


# ---- ctest and cmocka ----

CMOCKA = re.compile(r"\[  (PASSED|FAILED) *\] (\d+) test\(s\)|\[ *(SKIPPED) *\] (\d+) test\(s\)")


def count_program(status, output):
    """One C program's cases: what cmocka printed, else the program as one case."""
    counts = Counts()
    seen = False
    for match in CMOCKA.finditer(output):
        seen = True
        kind, number = match[1] or match[3], int(match[2] or match[4])
        if kind == "PASSED":
            counts.passed += number
        elif kind == "FAILED":
            counts.failed += number
        else:
            counts.skipped += number
    if status in ("fail", "notrun") and counts.failed == 0:
        counts.failed = 1
    if status == "skipped":
        counts.skipped += 1
    elif not seen and status == "run":
        counts.passed = 1
    return counts


def ctest(folder, name="unit", environment=None, without=None):
    """All C tests of a build but those whose names `without` matches; prints those that failed and why others were skipped."""
    report = folder / "ctest.xml"
    report.unlink(missing_ok=True)
    say(f"== {name} (ctest)")
    environment = {**os.environ, **(environment or {})}
    with open(folder / "ctest.log", "w") as out:  # many of them wait: a core has another one meanwhile
        status = run(["ctest", "--test-dir", folder, "-j", str(2 * int(JOBS)), "--output-junit", report,
                      "--test-output-size-passed", "4194304", "--test-output-size-failed", "4194304",
                      *(["--exclude-regex", without] if without else [])],
                     stdout=out, stderr=subprocess.STDOUT, env=environment)
    if not report.exists():
        say((folder / "ctest.log").read_text()[-4000:])
        return Counts(failed=1)
    total = Counts()
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        output = case.findtext("system-out") or ""
        counts = count_program(case.get("status"), output)
        total.add(counts)
        for line in output.splitlines():
            if re.match(r"\s*SKIP\b", line):
                say(f"SKIP {case.get('name')}: {line.strip()[4:].lstrip(': ')}")
        if counts.failed:
            say(f"---- FAIL {case.get('name')}\n{output[-6000:]}\n----")
    if status != 0 and total.failed == 0:
        say((folder / "ctest.log").read_text()[-4000:])
        total.failed = 1
    say(f"{name}: {total}")
    return total


# ---- pytest ----


def pytest(folder, name, paths, environment=None, arguments=(), aside=False):
    """Python tests against the programs of a build. `aside`: beside others, so it is told when it is over."""
    paths = [path for path in paths if (TOP / path.split("::")[0]).exists()]
    if not paths:
        return Counts()
    report, log = folder / f"pytest-{name}.xml", folder / f"pytest-{name}.log"
    report.unlink(missing_ok=True)
    command = ["/usr/bin/python3", "-m", "pytest", "-q", "-rsfE", "--tb=short", "-p", "no:cacheprovider",
               f"--junitxml={report}", *arguments, *paths]
    environment = {**os.environ, "WRIT_BUILD": str(folder), "PYTHONDONTWRITEBYTECODE": "1", **(environment or {})}
    start = time.monotonic()
    if aside:
        with open(log, "w") as out:
            status = run(command, env=environment, stdout=out, stderr=subprocess.STDOUT)
        say(f"== {name} (pytest)\n{log.read_text(errors='replace').rstrip()}")
    else:
        say(f"== {name} (pytest)")
        status = run(command, env=environment)
    if not report.exists():
        return Counts(failed=1)
    suite = next(ElementTree.parse(report).getroot().iter("testsuite"))
    failed = int(suite.get("failures")) + int(suite.get("errors"))
    skipped = int(suite.get("skipped"))
    counts = Counts(int(suite.get("tests")) - failed - skipped, failed, skipped)
    if status not in (0, 5) and counts.failed == 0:
        counts.failed = 1
    say(f"{name}: {counts} in {time.monotonic() - start:.0f} s")
    return counts


# ---- the short run ----


# How many processes share the files of a folder. Many tests wait, so there are more of them than processors.
PROCESSES = {"e2e": 4, "clients": 2, "integration": 4}
# The files that take longest begin first: no process is left alone with one of them while the others have ended.
LONGEST = {"e2e": ["survival", "queue", "policies_dir", "races", "persons", "cli", "console", "sessions", "traces", "tls", "http", "notify"],
           "integration": ["kafka", "postgres", "faults", "planted", "redis", "fleet_faults", "tampering", "journal_faults", "stack_faults", "flood",
                           "kafka_security", "fleet_people", "evidence_clean", "dashboards", "analysts", "fleet_trail", "recovery", "witness"]}


def folder_of_tests(folder, name):
    files = sorted(path.stem.removeprefix("test_") for path in (TOP / "tests" / name).glob("test_*.py"))  # those of folders within are for --long
    first = LONGEST.get(name, [])
    files.sort(key=lambda file: first.index(file) if file in first else len(first))
    return pytest(folder, name, [f"tests/{name}/test_{file}.py" for file in files], arguments=["-n", str(PROCESSES[name]), "--dist", "loadfile"], aside=True)


def short(only, folder):
    total = Counts()
    if folder is None:
        folder = build("dev")
        if folder is None:
            return Counts(failed=1)
    if only == "coding":
        return coding(folder)
    if only in (None, "unit"):
        total.add(ctest(folder))
    parts = {name: functools.partial(folder_of_tests, folder, name) for name in PROCESSES}
    for name in ("tidy", "conformance"):  # of one process each, for the processors that the others leave idle while they wait
        parts[name] = functools.partial(pytest, folder, name, [f"tests/{name}"], aside=True)
    wanted = [part for name, part in parts.items() if only in (None, name)]
    with concurrent.futures.ThreadPoolExecutor(len(parts)) as pool:
        for counts in pool.map(lambda part: part(), wanted):
            total.add(counts)
    return total


# ---- the long run ----


def program(folder, name, *arguments, count=None, least=0):
    """One program as one case, its output shown; `count` finds the number that must reach `least`."""
    path = next((p for p in folder.rglob(name) if p.is_file() and os.access(p, os.X_OK)), None)
    if path is None:
        say(f"FAIL {name} was not built")
        return Counts(failed=1)
    say(f"== {name} {' '.join(arguments)}")
    done = subprocess.run([path, *arguments], cwd=TOP, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    say(done.stdout[-6000:])
    found = re.search(count, done.stdout) if count else None
    if count and (found is None or int(found[1]) < least):
        say(f"FAIL {name}: {found[1] if found else 'no'} of at least {least}")
        return Counts(failed=1)
    return one(done.returncode == 0)


def long_everything_short():
    folder = build("dev")
    return short(None, folder) if folder else Counts(failed=1)


def long_kills():
    folder = build("dev")
    if folder is None:
        return Counts(failed=1)
    return pytest(folder, "kills", ["tests/e2e/test_survival.py", "tests/e2e/test_notify.py"], {"WRIT_LONG": "1"}, ["-s"])


def long_journal_faults():
    folder = build("dev")
    if folder is None:
        return Counts(failed=1)
    apart = [f"--ignore=tests/integration/test_{name}.py" for name in ("damaged", "faults", "stack_faults", "planted", "fleet_faults", "fleet_revocation", "tampering", "evidence_clean")]  # steps of their own
    return pytest(folder, "journal-faults", ["tests/integration"], {"WRIT_LONG": "1"}, ["-s", *apart])


def long_tampering():
    """Each kind of tampering in a million records, named by both verifiers. Goes on with the store that a run before has not finished."""
    folder = build("release")
    return pytest(folder, "tampering", ["tests/integration/test_tampering.py"], {"WRIT_LONG": "1"}, ["-s"]) if folder else Counts(failed=1)


def long_evidence_clean():
    """A hundred runs of faults and of what operators do, on both stores and with fleets: nothing is found. Goes on where a run was stopped."""
    folder = build("dev")
    return pytest(folder, "evidence-clean", ["tests/integration/test_evidence_clean.py"],
                  {"WRIT_LONG": "1"}, ["-s"]) if folder else Counts(failed=1)


def long_tls():
    """A minute of reloads and ten seconds of handshakes; then the tests of HTTP once more, over TLS."""
    folder = build("dev")
    if folder is None:
        return Counts(failed=1)
    own = pytest(folder, "tls", ["tests/e2e/test_tls.py"], {"WRIT_LONG": "1"}, ["-s"])
    # these look at the socket itself: they close half of it, or count connections that are refused before a handshake
    of_sockets = "half_closed or slow_head or nobody_known or silent_are_bounded or what_is_forwarded or engines_that_wait"
    own.add(pytest(folder, "http-over-tls", ["tests/e2e/test_http.py"], {"WRIT_TLS": "1"}, ["-k", f"not ({of_sockets})"]))
    return own


def long_damaged():
    """1,000 damaged copies of a data directory: each refused with a reason, or answered right."""
    folder = build("dev")
    return pytest(folder, "damaged", ["tests/integration/test_damaged.py"], {"WRIT_LONG": "1"}, ["-s"]) if folder else Counts(failed=1)


def long_faults():
    """200 rounds of kills, sleeps of 20 s, cuts and full disks, each compared with what clients were told."""
    folder = build("dev")
    if folder is None:
        return Counts(failed=1)
    paths = ["tests/integration/test_faults.py", "tests/integration/test_stack_faults.py"]
    return pytest(folder, "faults", paths, {"WRIT_LONG": "1"}, ["-s", "-k", "not away_at_load"])


def long_outage():
    """A broker that is away for ten minutes, at a rate that only the release build reaches."""
    folder = build("release")
    if folder is None:
        return Counts(failed=1)
    return pytest(folder, "outage", ["tests/integration/test_stack_faults.py"], {"WRIT_LONG": "1"}, ["-s", "-k", "away_at_load"])


def long_power_cuts():
    folder = build("release")
    return program(folder, "sim_sim_journal", "--seeds", "9500", count=r"power cuts +(\d+)", least=100000) if folder else Counts(failed=1)


def long_gate():
    folder = build("release")
    return program(folder, "sim_sim_gate", "--count", "1000000", count=r"(\d+) pairs", least=1000000) if folder else Counts(failed=1)


def long_masks():
    """A million random policies, none of which lets a text show what a mask covers."""
    folder = build("release")
    return program(folder, "sim_sim_masks", "--count", "1000000", count=r"(\d+) policies", least=1000000) if folder else Counts(failed=1)


def long_shadow():
    """100,000 sets, with and without shadow documents beside them."""
    folder = build("release")
    return program(folder, "sim_sim_shadow", "--count", "100000", count=r"(\d+) sets", least=100000) if folder else Counts(failed=1)


def long_limits():
    """20,000 limits over simulated days of changes, held against an exact account."""
    folder = build("release")
    return program(folder, "sim_sim_limits", "--count", "20000", count=r"(\d+) lives", least=20000) if folder else Counts(failed=1)


def long_steps():
    """100,000 lives of the steps of requests, over results that are late, lost or doubled. Release builds have no calls to wrap."""
    folder = build("dev")
    return program(folder, "sim_sim_steps", "--count", "100000", count=r"(\d+) seeds", least=100000) if folder else Counts(failed=1)


def long_state():
    """A million lives of the state, over late mail and power cuts."""
    folder = build("release")
    return program(folder, "sim_sim_state", "--seeds", "1000000", count=r"(\d+) seeds", least=1000000) if folder else Counts(failed=1)


def long_fleet():
    """A million lives of a fleet. A run that is stopped goes on where it was."""
    folder = build("release")
    return program(folder, "sim_sim_fleet", "--seeds", "1000000", "--progress", str(FLEET_PROGRESS),
                   count=r"(\d+) seeds, ", least=1000000) if folder else Counts(failed=1)


def long_fleet_faults():
    """Engines, brokers and machines of a fleet killed, stopped and cut off, in namespaces. Goes on where a run was stopped."""
    folder = build("dev")
    if folder is None:
        return Counts(failed=1)
    return pytest(folder, "fleet-faults", ["tests/integration/test_fleet_faults.py", "tests/integration/test_fleet_revocation.py"],
                  {"WRIT_LONG": "1", "WRIT_FLEET_PROGRESS": str(FLEET_FAULTS_PROGRESS)}, ["-s"])


def long_races():
    folder = build("dev")
    return pytest(folder, "races", ["tests/e2e/test_races.py"], {"WRIT_LONG": "1"}, ["-s"]) if folder else Counts(failed=1)


def long_retries():
    """200 kills among agents that retry, for each of their behaviours."""
    folder = build("dev")
    paths = ["tests/e2e/test_retries.py", "tests/e2e/test_retrying_agents.py"]
    return pytest(folder, "retries", paths, {"WRIT_LONG": "1"}, ["-s"]) if folder else Counts(failed=1)


def long_walks():
    """160,000 calls by chance, each answer held against the model."""
    folder = build("dev")
    return pytest(folder, "walks", ["tests/e2e/test_walk.py"], {"WRIT_LONG": "1"}, ["-s"]) if folder else Counts(failed=1)


def long_agents():
    """The client libraries in full counts, and the example agents of clients/ with the frameworks that they are made for."""
    folder = build("dev")
    return pytest(folder, "agents", ["tests/clients"], {"WRIT_LONG": "1"}) if folder else Counts(failed=1)


def coding(folder):
    """Real coding agents behind the hook. Installs them into build/agents with npm: a gigabyte, kept for the next run."""
    agents = json.loads((TOP / "tests" / "coding" / "agents.json").read_text())
    if shutil.which("npm") is None:
        say("SKIP coding: npm is not installed, so there are no coding agents")
        return Counts(skipped=len(agents))
    for name, package in agents.items():
        place = TOP / "build" / "agents" / name
        mark = place / "installed"
        if mark.exists() and mark.read_text() == package:
            continue
        if run(["npm", "install", "--no-audit", "--no-fund", "--prefix", place, package]) != 0:
            say(f"FAIL coding: npm cannot install {package}")
            return Counts(failed=1)
        mark.write_text(package)
    return pytest(folder, "coding", ["tests/coding"], {"WRIT_LONG": "1"}, ["-s"])


def long_coding():
    folder = build("dev")
    return coding(folder) if folder else Counts(failed=1)


def long_documents():
    """The pages of docs/ that need running programs, as printed."""
    folder = build("dev")
    return pytest(folder, "documents", ["tests/e2e/test_docs.py"], {"WRIT_LONG": "1"}) if folder else Counts(failed=1)


def long_console():
    """The console, with what a reader needs for 20 reviews printed."""
    folder = build("dev")
    return pytest(folder, "console", ["tests/e2e/test_console.py"], {"WRIT_LONG": "1"}, ["-s"]) if folder else Counts(failed=1)


def long_races_tsan():
    folder = build("tsan")
    options = {"TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1", "WRIT_LONG": "1"}
    return pytest(folder, "races-tsan", ["tests/e2e/test_races.py"], options, ["-s", "-k", "winner"]) if folder else Counts(failed=1)


def long_cel():
    """Conditions beside cel-go, on more than 100,000 questions: odd enough to be worth the sanitizers."""
    folder = build("dev")
    return pytest(folder, "cel", ["tests/conformance"], {"WRIT_LONG": "1"}, ["-s"]) if folder else Counts(failed=1)


def long_tsan():
    folder = build("tsan")
    if folder is None:
        return Counts(failed=1)
    options = {"TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1", "WRIT_REACTORS": "4"}
    total = ctest(folder, "unit under ThreadSanitizer", options, without="^sim_")  # those have one thread
    total.add(pytest(folder, "e2e-tsan", ["tests/e2e"], options))
    return total


def long_valgrind():
    """Every unit test, and both programs for one scenario, under valgrind."""
    folder = build("release")
    if folder is None:
        return Counts(failed=1)
    total = Counts()
    for path in sorted((folder / "tests").iterdir()):
        if not re.match(r"\w+_test_\w+$", path.name) or not os.access(path, os.X_OK):
            continue
        log = LONG / f"valgrind-{path.name}.log"
        with open(log, "w") as out:
            status = run(["valgrind", "-q", f"--suppressions={TOP}/tests/valgrind.supp", "--leak-check=full", "--errors-for-leak-kinds=definite,indirect",
                          "--error-exitcode=9", "--trace-children=no", path],
                         stdout=out, stderr=subprocess.STDOUT, env={**os.environ, "WRIT_VALGRIND": "1"})
        total.add(one(status == 0))
        say(f"{'ok  ' if status == 0 else 'FAIL'} valgrind {path.name}")
        if status != 0:
            say(log.read_text()[-3000:])
    total.add(pytest(folder, "valgrind", ["tests/e2e/test_spine.py"], {"WRIT_VALGRIND": "1"}))
    return total


def long_planted():
    folder = build("dev")
    if folder is None:
        return Counts(failed=1)
    return pytest(folder, "planted", ["tests/integration/test_planted.py"], {"WRIT_LONG": "1"}, ["-s"])


def fuzz_targets():
    return sorted(path.stem for path in (TOP / "tests" / "fuzz").glob("fuzz_*.c"))


def long_fuzz(folder, target):
    """Fuzzes one target on a copy of its corpus: the repository keeps its small one."""
    path = next(p for p in folder.rglob(target) if p.is_file() and os.access(p, os.X_OK))
    corpus = LONG / "corpus" / target
    corpus.mkdir(parents=True, exist_ok=True)
    known = TOP / "tests" / "fuzz" / "corpus" / target
    log = LONG / f"{target}.log"
    with open(log, "w") as out:
        status = run([path, f"-max_total_time={FUZZ_SECONDS}", "-timeout=10", "-rss_limit_mb=4096",
                      f"-artifact_prefix={LONG}/{target}-", corpus, *([known] if known.is_dir() else [])],
                     stdout=out, stderr=subprocess.STDOUT)
    lines = log.read_text(errors="replace").splitlines()
    say(f"== {target} for {FUZZ_SECONDS} s\n" + "\n".join(lines[-1:] if status == 0 else lines[-40:]))
    return one(status == 0)


def fingerprint():
    """A digest of every source: results of other sources prove nothing about these."""
    digest = hashlib.sha256()
    roots = ["src", "shards", "pipeline", "tests", "ops", "cmake", "schemas", "docs", "clients", "README.md", "CMakeLists.txt", "CMakePresets.json"]
    for root in roots:
        path = TOP / root
        for file in sorted([path] if path.is_file() else path.rglob("*")):
            if file.is_file() and not {"__pycache__", "node_modules"} & set(file.parts):
                digest.update(str(file.relative_to(TOP)).encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def long():
    LONG.mkdir(parents=True, exist_ok=True)
    state_file = LONG / "state.json"
    now = fingerprint()
    state = json.loads(state_file.read_text()) if state_file.exists() else {}
    if state.get("sources") != now:
        if state.get("steps"):
            say("Sources changed since the last long run: starting afresh.")
        state = {"sources": now, "steps": {}}
        FLEET_PROGRESS.unlink(missing_ok=True)
        FLEET_FAULTS_PROGRESS.unlink(missing_ok=True)
        EVIDENCE_PROGRESS.unlink(missing_ok=True)
        TAMPERING_PROGRESS.unlink(missing_ok=True)

    def is_done(name):
        return name in state["steps"] and not state["steps"][name]["failed"]

    lock = threading.Lock()

    def perform(name, step):
        start = time.monotonic()
        counts = step()
        with lock:
            state["steps"][name] = {"passed": counts.passed, "failed": counts.failed, "skipped": counts.skipped,
                                    "seconds": round(time.monotonic() - start)}
            temporary = state_file.with_suffix(".new")
            temporary.write_text(json.dumps(state, indent=1))
            temporary.replace(state_file)

    steps = [("short", long_everything_short), ("kills", long_kills), ("journal_faults", long_journal_faults), ("tampering", long_tampering), ("evidence_clean", long_evidence_clean), ("tls", long_tls), ("damaged", long_damaged),
             ("faults", long_faults), ("outage", long_outage), ("power_cuts", long_power_cuts), ("gate", long_gate), ("masks", long_masks), ("shadow", long_shadow), ("limits", long_limits), ("planted", long_planted),
             ("state", long_state), ("fleet", long_fleet), ("fleet_faults", long_fleet_faults), ("steps", long_steps), ("races", long_races), ("retries", long_retries), ("walks", long_walks), ("agents", long_agents), ("coding", long_coding), ("documents", long_documents), ("console", long_console), ("races_tsan", long_races_tsan),
             ("valgrind", long_valgrind), ("tsan", long_tsan), ("cel", long_cel)]
    for name, step in steps:
        if is_done(name):
            say(f"{name}: done before")
        else:
            perform(name, step)

    # Fuzz targets need a core each and nothing else, so as many run side by side as there are cores.
    targets = fuzz_targets()
    left = [name for name in targets if not is_done(name)]
    folder = build("fuzz", left) if left else None
    if folder:
        with concurrent.futures.ThreadPoolExecutor(int(JOBS)) as pool:
            list(pool.map(lambda name: perform(name, lambda: long_fuzz(folder, name)), left))

    total = Counts()
    names = [name for name, _ in steps] + targets
    for name in names:
        done = state["steps"].setdefault(name, {"passed": 0, "failed": 1, "skipped": 0, "seconds": 0})
        total.add(Counts(done["passed"], done["failed"], done["skipped"]))

    say(f"\n{'step':<24}{'passed':>8}{'failed':>8}{'skipped':>9}{'seconds':>9}")
    for name in names:
        done = state["steps"][name]
        say(f"{name:<24}{done['passed']:>8}{done['failed']:>8}{done['skipped']:>9}{done['seconds']:>9}")
    return total


def main():
    parser = argparse.ArgumentParser(prog="ops/test", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--long", action="store_true", help="run the full counts (resumable)")
    parser.add_argument("--only", choices=["unit", "tidy", "conformance", "clients", "e2e", "integration", "coding"])
    parser.add_argument("--build", type=pathlib.Path, help="test this build directory, as it is")
    arguments = parser.parse_args()
    start = time.monotonic()
    if arguments.long:
        total = long()
    else:
        total = short(arguments.only, arguments.build.resolve() if arguments.build else None)
    say(f"{time.monotonic() - start:.0f} seconds")
    say(str(total))
    return 1 if total.failed or total.passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main())

"""The journal against the operating system: killed, refused and short-changed at its system calls.

`journal_driver` appends records and says which of them were acknowledged. It runs under strace,
which kills it, or lets a call fail, at the n-th call of one kind; then the directory is opened
without strace. Whatever happened:

  - every record that was acknowledged is there, once, in order, and none that was not sent;
  - a run whose write or sync failed did not go on: it ended by abort, or was not opened;
  - the directory can be opened again.

The short form takes a sample of the n's by a printed seed (WRIT_SEED=… repeats it); WRIT_LONG=1
takes all of them.
"""

import os
import pathlib
import random
import re
import signal
import subprocess

import pytest
from preload import preload

TOP = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("WRIT_BUILD", TOP / "build" / "dev"))
DRIVER = BUILD / "tests" / "journal_driver"
SHORT_WRITE = BUILD / "tests" / "libshort_write.so"
LONG = os.environ.get("WRIT_LONG") == "1"
SEED = int(os.environ.get("WRIT_SEED", random.randrange(1 << 30)))
RECORDS = 300
NOT_OPENED, NOT_LOADED = 3, 127  # the second is the dynamic loader's: a fault before main()
# The sanitizers know neither strace nor a preload before them.
ENVIRONMENT = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0:verify_asan_link_order=0"}

CALLS = ["openat", "pwrite64", "pread64", "fdatasync", "fsync", "fallocate", "renameat", "unlinkat", "flock",
         "getdents64", "fstatfs"]
MUST_NOT_GO_ON = {("pwrite64", "EIO"), ("fdatasync", "EIO")}


def spell(call):
    """The call by its names on this and on other machines; strace ignores those marked `?`."""
    return {"renameat": "?renameat,?renameat2"}.get(call, call)


class Run:
    def __init__(self, done, log=None):
        self.status = done.returncode
        self.injected = log is not None and "(INJECTED)" in log.read_text(errors="replace")
        self.error = done.stderr.decode(errors="replace")
        self.acknowledged, self.wrote, self.confirmed, self.full = [], [], 0, 0
        # A line cut short by a kill was not said.
        for line in done.stdout.decode().splitlines(keepends=True):
            if not line.endswith("\n"):
                continue
            word, _, name = line.strip().partition(" ")
            if word == "ack":
                self.acknowledged.append(name)
            elif word == "wrote":
                self.wrote.append(name)
            elif word == "confirm":
                self.confirmed = int(name.rpartition("-")[2])
            elif word == "full":
                self.full += 1


def run(directory, tag, *prefix, mode="append", records=RECORDS, environment=None, log=None):
    command = [*prefix, str(DRIVER), mode, str(directory), tag, str(records)]
    done = subprocess.run(command, capture_output=True, env={**ENVIRONMENT, **(environment or {})}, timeout=600)
    return Run(done, log)


def strace(call, what, log="/dev/null"):
    return ["strace", "-f", "-qqq", "-o", str(log), "-e", f"trace={spell(call)}", "-e", f"inject={spell(call)}:{what}"]


def stored(directory):
    """What comes back from an undisturbed opening."""
    done = subprocess.run([str(DRIVER), "check", str(directory)], capture_output=True, env=ENVIRONMENT, timeout=600)
    assert done.returncode == 0, f"cannot be opened again: {done.stderr.decode(errors='replace')[-600:]}"
    return re.findall(r"^have (\S+)$", done.stdout.decode(), re.M)


def must_hold(directory, runs):
    """`runs`: (tag, Run) in order. All that was told holds, and nothing else came back."""
    names = stored(directory)
    assert len(names) == len(set(names)), "a record is there twice"
    for tag, done in runs:
        mine = [int(name.rpartition("-")[2]) for name in names if name.startswith(tag + "-")]
        assert mine == sorted(mine), "records are out of order"
        assert all(1 <= serial <= RECORDS for serial in mine)
        there = set(mine)
        for name in done.acknowledged + done.wrote:
            serial = int(name.rpartition("-")[2])
            # A later run may have removed what an earlier one confirmed, or all of the earlier one.
            removable = serial <= done.confirmed or any(later.confirmed for _, later in runs[runs.index((tag, done)) + 1:])
            assert serial in there or removable, f"{name} was acknowledged and is gone"
    known = {tag for tag, _ in runs}
    assert {name.rpartition("-")[0] for name in names} <= known, "a record came back that nobody sent"


def count_calls(directory, call, mode="append"):
    """How often one thread makes this call in an undisturbed run of an old directory."""
    log = directory.with_suffix(".strace")
    done = run(directory, "count", "strace", "-ff", "-qqq", "-o", str(log), "-e", f"trace={spell(call)}", mode=mode)
    assert done.status == 0, done.error
    most = 0
    for part in log.parent.glob(log.name + ".*"):
        lines = part.read_text().splitlines()
        most = max(most, sum(re.match(r"\w+\(", line) is not None for line in lines))
        part.unlink()
    return most


def sample(call, count, most):
    """Which n's to try: all of them, or some, always with the first and the last."""
    if LONG or count <= most:
        return list(range(1, count + 1))
    chance = random.Random(f"{SEED} {call}")
    return sorted({1, count, *chance.sample(range(1, count + 1), most - 2)})


def old_directory(tmp_path):
    """A directory that a killed run left: with a tail to be looked at, and a full segment."""
    directory = tmp_path / "journal"
    first = run(directory, "first", *strace("fdatasync", "signal=KILL:when=30"))
    assert first.status == -signal.SIGKILL, first.error
    return directory, first


def copy(directory, to):
    subprocess.run(["cp", "-a", str(directory), str(to)], check=True)
    return to


@pytest.fixture(scope="module", autouse=True)
def prerequisites():
    if not DRIVER.exists():
        pytest.skip(f"{DRIVER} is not built")
    print(f"\nWRIT_SEED={SEED}")


def faults(tmp_path, call, what, most, mode="append"):
    """One fault at each chosen n: (n, the run)."""
    directory, first = old_directory(tmp_path)
    count = count_calls(copy(directory, tmp_path / "counting"), call, mode)
    if count == 0:
        pytest.skip(f"the journal makes no {call} here")
    chosen = sample(call + what, count, most)
    print(f"{call} {what}: {len(chosen)} of {count}")
    hit = early = 0
    for n in chosen:
        place = copy(directory, tmp_path / "try")
        log = tmp_path / "strace"
        done = run(place, "second", *strace(call, f"{what}:when={n}", log), mode=mode, log=log)
        yield n, done
        try:
            must_hold(place, [("first", first), ("second", done)])
        except AssertionError as error:
            raise AssertionError(f"{call} {what} at n={n}, WRIT_SEED={SEED}: {error}\n{done.error[-600:]}") from error
        hit += done.injected or done.status == -signal.SIGKILL
        early += done.status != 0
        subprocess.run(["rm", "-rf", str(place)], check=True)
    print(f"  {hit} faults met, {early} runs ended early")
    assert hit, "no fault was met"


@pytest.mark.parametrize("mode", ["append", "threads"])
def test_short_and_interrupted_calls_are_completed(tmp_path, mode):
    directory, first = old_directory(tmp_path)
    done = run(directory, "second", mode=mode, environment={"LD_PRELOAD": preload(SHORT_WRITE)})
    assert done.status == 0, done.error
    assert len(done.acknowledged) == RECORDS
    must_hold(directory, [("first", first), ("second", done)])


def test_the_preload_makes_calls_short(tmp_path):
    """Else the test above would prove nothing."""
    log = tmp_path / "strace"
    directory = tmp_path / "journal"
    traced = ["strace", "-f", "-qqq", "-o", str(log), "-E", f"LD_PRELOAD={preload(SHORT_WRITE)}", "-e", "trace=pwrite64"]
    assert run(directory, "only", *traced).status == 0
    sizes = [int(size) for size in re.findall(r"pwrite64\(.*, (\d+), \d+\) = ", log.read_text())]
    assert any(size % 512 for size in sizes), "no write was cut short"


@pytest.mark.parametrize("call", CALLS)
def test_a_kill_at_any_call_loses_nothing_acknowledged(tmp_path, call):
    for n, done in faults(tmp_path, call, "signal=KILL", most=6):
        assert done.status in (0, -signal.SIGKILL), f"n={n}: {done.error[-600:]}"


@pytest.mark.parametrize("call", ["pwrite64", "fdatasync", "openat"])
def test_a_kill_at_any_call_of_any_thread_loses_nothing_acknowledged(tmp_path, call):
    """As the engine runs it; which thread is at its n-th call first is left to chance."""
    for n, done in faults(tmp_path, call, "signal=KILL", most=5, mode="threads"):
        assert done.status in (0, -signal.SIGKILL), f"n={n}: {done.error[-600:]}"


@pytest.mark.parametrize("error", ["EIO", "ENOSPC"])
@pytest.mark.parametrize("call", ["openat", "pwrite64", "pread64", "fdatasync", "fsync", "fallocate", "renameat", "unlinkat"])
def test_an_error_at_any_call_is_never_papered_over(tmp_path, call, error):
    for n, done in faults(tmp_path, call, f"error={error}", most=5):
        assert done.status in (0, NOT_OPENED, NOT_LOADED, -signal.SIGABRT), f"n={n}: status {done.status}: {done.error[-600:]}"
        if done.status == -signal.SIGABRT:
            assert "it is unknown which data the kernel holds" in done.error, f"n={n}: {done.error[-600:]}"
        if done.injected and (call, error) in MUST_NOT_GO_ON:
            assert done.status != 0, f"{call} failed with {error} at n={n}, and the journal went on"
        if done.status == 0:
            assert len(done.acknowledged) + done.full == RECORDS, f"n={n}: some were neither acknowledged nor refused"


def test_a_failed_sync_ends_the_threads_too(tmp_path):
    for n, done in faults(tmp_path, "fdatasync", "error=EIO", most=4, mode="threads"):
        if done.injected:
            assert done.status in (NOT_OPENED, -signal.SIGABRT), f"the journal went on after a failed sync at n={n}"


@pytest.mark.parametrize("mode", ["append", "threads"])
def test_a_disk_that_stays_full_refuses_and_keeps_what_it_took(tmp_path, mode):
    directory, first = old_directory(tmp_path)
    done = run(directory, "second", *strace("fallocate", "error=ENOSPC:when=1+"), mode=mode)
    assert done.status == 0, done.error
    assert done.full > 0 and done.acknowledged, "the disk was never full, or always"
    must_hold(directory, [("first", first), ("second", done)])


@pytest.mark.parametrize("mode", ["append", "threads"])
def test_a_disk_that_gets_room_again_goes_on_by_itself(tmp_path, mode):
    directory, first = old_directory(tmp_path)
    done = run(directory, "second", *strace("fallocate", "error=ENOSPC:when=1..3"), mode=mode)
    assert done.status == 0, done.error
    assert f"second-{RECORDS}" in done.acknowledged, "it did not go on"
    must_hold(directory, [("first", first), ("second", done)])

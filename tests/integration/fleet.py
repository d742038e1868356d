"""Everything that writ can run with, as real processes that a test may kill, stop and starve.

A Fleet is an engine and a platform, with or without a broker, a Redis, a PostgreSQL; it has clients
that write down what they were told, and check() proves that it holds.
"""

import fcntl
import os
import pathlib
import pwd
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

import pytest

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tests" / "e2e"))

import harness  # noqa: E402
from harness import BUILD, LONG, Stack, eventually  # noqa: E402,F401

import checker  # noqa: E402
from clients import POLICY, Keeper, Load  # noqa: E402
from preload import preload  # noqa: E402


GOING_DOWN, GOING_DOWN_AS_IT_IS = 0x8004587D, 2  # EXT4_IOC_SHUTDOWN and XFS_IOC_GOINGDOWN, without a flush of the log


def fresh_seed():
    """A seed that was not used before, printed; WRIT_SEED repeats a run."""
    seed = int(os.environ.get("WRIT_SEED") or random.SystemRandom().randrange(1 << 32))
    print(f"\nseed {seed} (WRIT_SEED repeats it)", flush=True)
    return random.Random(seed)


def die_with_us():
    """For the child: killed when this process is gone. (A change of user forgets it.)"""
    harness._LIBC.prctl(harness.PR_SET_PDEATHSIG, signal.SIGKILL)


class Late:
    """Words that are found when they are needed."""

    def __init__(self, words):
        self.words = words

    def __str__(self):
        return str(self.words())


class Redis:
    """One redis-server on a socket of its own: this process is its parent and waits for it."""

    def __init__(self, folder, configuration=()):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir()
        self.socket = self.folder / "sock"
        self.url = f"unix:{self.socket}"
        self.configuration = list(configuration)
        self.user = ()
        self.process = None

    @property
    def pid(self):
        return self.process.pid

    def start(self):
        self.process = subprocess.Popen(
            ["redis-server", "--port", "0", "--unixsocket", "sock", "--dir", str(self.folder), "--save", "",
             "--logfile", "log", *self.configuration], cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            preexec_fn=die_with_us)
        eventually(lambda: "PONG" in self.ask("PING", check=False), "Redis answers")
        return self

    def ask(self, *words, check=True):
        done = subprocess.run(["redis-cli", "-s", str(self.socket), *self.user, *[str(w) for w in words]],
                              capture_output=True, text=True, timeout=harness.PATIENCE)
        assert not check or done.returncode == 0, done.stderr
        return done.stdout.strip()

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process = None

    def end(self):
        if self.process is not None:
            self.process.send_signal(signal.SIGCONT)
            self.kill()

    def save_as(self, name):
        self.ask("SAVE")
        shutil.copy(self.folder / "dump.rdb", self.folder / name)

    def restore(self, name):
        """What a restored backup is: the server comes back with an old file."""
        self.kill()
        shutil.copy(self.folder / name, self.folder / "dump.rdb")
        self.start()


def in_memory():
    """A place in memory with room for files whose writer is killed, but whose machine is not; None: there is none."""
    place = pathlib.Path("/dev/shm")
    return place if place.is_dir() and shutil.disk_usage(place).free >= 2 << 30 else None


class Postgres:
    """One PostgreSQL of the tests' own, on a socket in a folder of its own, in memory where there is room; a database for each fleet.

    As root it runs as another user, since it refuses to be root. A crash is a crash of all its processes."""

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="writ-postgres-", dir=in_memory()))
        self.bin = next(iter(sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"), key=lambda p: -float(p.parent.name))), None)
        self.process, self.databases = None, 0

    def as_its_user(self):
        if os.geteuid() != 0:
            return {}
        for name in ("postgres", "nobody"):
            try:
                user = pwd.getpwnam(name)
                return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
            except KeyError:
                pass
        raise AssertionError("there is no user to run PostgreSQL as")

    def up(self):
        """"" when it is up; else why this machine cannot have it."""
        if self.bin is None or shutil.which("psql") is None:
            return "PostgreSQL is not installed"
        its = self.as_its_user()
        if its:
            os.chown(self.folder, its["user"], its["group"])
        subprocess.run([self.bin / "initdb", "-D", self.folder / "data", "-U", "writ", "-A", "trust", "--no-locale", "-E", "UTF8"],
                       cwd=self.folder, stdout=subprocess.DEVNULL, check=True, **its)
        self.start()
        return ""

    def start(self):
        if self.process is not None:
            return
        with open(self.folder / "log", "ab") as log:
            for _ in range(50):  # the last of a killed one's processes may hold its memory for a moment
                self.process = subprocess.Popen(
                    [self.bin / "postgres", "-D", "data", "-k", str(self.folder), "-c", "listen_addresses=", "-c", "max_connections=60",
                     "-c", "dynamic_shared_memory_type=mmap"],  # in its folder, gone with it
                    cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=die_with_us, **self.as_its_user())
                eventually(lambda: self.process.poll() is not None or self.answers(), "PostgreSQL answers")
                if self.process.poll() is None:
                    return
        raise AssertionError((self.folder / "log").read_text()[-2000:])

    def answers(self):
        return subprocess.run([self.bin / "pg_isready", "-q", "-h", self.folder], cwd="/").returncode == 0

    def pids(self):
        """The server and all that it has forked."""
        listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(self.process.pid)], capture_output=True, text=True)
        return [self.process.pid, *map(int, listed.stdout.split())]

    def kill(self):
        for pid in self.pids():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()
        self.process = None

    def url(self, database):
        return f"postgresql://writ@/{database}?host={self.folder}"

    def new_database(self):
        self.databases += 1
        name = f"faults{self.databases}"
        subprocess.run(["psql", "-X", "-q", "-d", self.url("postgres"), "-c", f"CREATE DATABASE {name}"], check=True)
        return self.url(name)

    def close(self):
        if self.process is not None:
            self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


class Fleet:
    """`journal_disk`, `store_disk`: the size of a file system of its own for what the engine, or the platform, keeps.
    `disk`: of one for both. `disk_made_by`: the command that makes it, in a file; otherwise it is in memory.
    `clock`: both programs' wall clocks can be stepped."""

    def __init__(self, folder, broker=None, redis=None, postgres=None, engine=(), platform=(), journal_disk=None, store_disk=None,
                 disk=None, disk_made_by=None, clock=False, **options):
        self.folder = pathlib.Path(folder)
        self.mounts, self.clock = [], None
        if disk is not None:
            self.mount("data", disk, disk_made_by)
        if journal_disk is not None:
            options["engine_data"] = self.mount("journal", journal_disk, disk_made_by)
        if store_disk is not None:
            self.mount("data", store_disk, disk_made_by)
            options["engine_data"] = self.folder / "engine-data"
            options["engine_data"].mkdir()
        if clock:
            self.clock = self.folder / "clock"
            self.step_clock(0)
            shifted = {"LD_PRELOAD": preload(BUILD / "tests" / "libclock_shift.so"), "CLOCK_SHIFT_FILE": str(self.clock),
                       "ASAN_OPTIONS": "detect_leaks=0:verify_asan_link_order=0"}
            options |= {"engine_environment": shifted, "platform_environment": shifted}
        self.broker, self.redis, self.postgres = broker, redis, postgres
        engine, platform = list(engine), list(platform)
        if broker is not None:
            self.topic = broker.new_topic()
            both = ["--kafka.brokers", broker.address, "--kafka.topic", self.topic]
            engine += both
            platform += both
        if redis is not None:
            engine += ["--redis.url", redis.url]
        self.store_url = postgres.new_database() if postgres is not None else None
        self.stack = Stack(self.folder, engine=engine, platform=platform, store_url=self.store_url, **options)
        self.engine, self.platform = self.stack.engine, self.stack.platform
        self.told = checker.Told(self.folder / "told.ndjson")
        self.loads, self.keeper, self.reviewer = [], None, None

    # ---- life ----

    def start(self):
        if self.broker is not None:
            self.broker.start()  # one that an earlier test left dead
        self.stack.start()
        self.reviewer = self.stack.key("rita-laptop", ["reviewer"], owner="rita", reviewers=["*"], wait=False)
        self.stack.policy("base", POLICY)
        return self

    def close(self):
        for load in self.loads:
            load.stopping.set()
        if self.keeper is not None:
            self.keeper.stopping.set()
        for victim in self.victims():
            self.resume(victim)
        self.stack.close()
        self.told.close()
        for folder in self.mounts:
            subprocess.run(["umount", "-l", folder], check=True)
        self.mounts = []

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.close()

    def stop(self):
        """A clean end of both; each must end with 0."""
        self.engine.stop()
        self.platform.stop()

    # ---- clients ----

    def load(self, **options):
        load = Load(self.stack, self.told, f"load{len(self.loads) + 1}", **options)
        self.loads.append(load)
        return load.start()

    def keep(self, chance, **options):
        self.keeper = Keeper(self.stack, self.told, "keeper", self.reviewer, chance, **options)
        return self.keeper.start()

    def stop_clients(self):
        for load in self.loads:
            load.stop()
        if self.keeper is not None:
            self.keeper.stop()

    # ---- faults ----

    def victims(self):
        """The names of those that can be killed."""
        return ["engine", "platform", *(name for name in ("broker", "redis", "postgres") if getattr(self, name) is not None)]

    def pids(self, name):
        """All processes of a victim; none where it is not running."""
        victim = getattr(self, name)
        if hasattr(victim, "server_pid"):
            return [victim.server_pid] if victim.server_pid is not None else []
        if victim.process is None:
            return []
        return victim.pids() if hasattr(victim, "pids") else [victim.process.pid]

    def kill(self, name):
        getattr(self, name).kill()

    def revive(self, name):
        getattr(self, name).start()

    def pause(self, name):
        for pid in self.pids(name):
            os.kill(pid, signal.SIGSTOP)

    def resume(self, name):
        for pid in self.pids(name):
            try:
                os.kill(pid, signal.SIGCONT)
            except ProcessLookupError:
                pass

    def mount(self, name, size, made_by=None):
        """A small file system, in memory or made in a file by that command; the test is skipped where there can be none."""
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        if os.geteuid() != 0:
            pytest.skip("SKIP: mounting a small file system needs root")
        command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder]
        if made_by is not None:
            if shutil.which(made_by[0]) is None:
                pytest.skip(f"SKIP: {made_by[0]} is not installed")
            image = self.folder / f"{name}.image"
            subprocess.run(["truncate", "-s", size, image], check=True)
            subprocess.run([*made_by, image], check=True, capture_output=True)
            command = ["mount", "-o", "loop", image, folder]
        if subprocess.run(command, capture_output=True).returncode != 0:
            pytest.skip(f"SKIP: this machine does not allow mounts, or none of what {made_by[0]} makes" if made_by else
                        "SKIP: this machine does not allow mounts")
        self.mounts.append(folder)
        return folder

    def cut_power(self, name):
        """Of a disk that was made in a file: nothing more is written to it, as of now, and both programs are gone."""
        folder = self.folder / name
        directory = os.open(folder, os.O_RDONLY)
        fcntl.ioctl(directory, GOING_DOWN, struct.pack("=I", GOING_DOWN_AS_IT_IS))
        os.close(directory)
        self.engine.kill()
        self.platform.kill()
        subprocess.run(["umount", folder], check=True)
        image = self.folder / f"{name}.image"
        # A mount namespace that another test has made meanwhile keeps it mounted, as dead as it is, until that test is over.
        eventually(lambda: not subprocess.run(["losetup", "-j", image], check=True, capture_output=True).stdout, "the file system is gone")
        subprocess.run(["mount", "-o", "loop", image, folder], check=True)

    @staticmethod
    def fill(folder, leave=0):
        """Takes all room of a file system but so many bytes; gives the file to be removed."""
        filler = folder / "filler"
        free = os.statvfs(folder)
        with open(filler, "wb", buffering=0) as file:
            file.write(b"\0" * max(0, free.f_bavail * free.f_bsize - leave))
        return filler

    def step_clock(self, hours):
        """Sets how far the programs' wall clocks are from the machine's."""
        with open(self.clock, "r+b" if self.clock.exists() else "wb") as file:
            file.write(struct.pack("=q", int(hours * 3600 * 1000)))

    # ---- what must be so ----

    def store(self):
        return checker.PostgresStore(self.store_url) if self.store_url is not None else checker.SqliteStore(self.stack.data / "platform.db")

    def health(self, program=None):
        with harness.Wire((program or self.engine).address) as wire:
            return wire.get("/healthz").json

    def is_well(self, program):
        """A clock that was stepped is told for hours, and all else has to be well meanwhile."""
        told = {name: text for name, text in self.health(program)["checks"].items() if text != "ok"}
        return not told or (self.clock is not None and set(told) == {"clock"})

    def wait_well(self, seconds=None):
        """Until both say that all is well: back without a hand on it."""
        for program in (self.engine, self.platform):
            eventually(lambda: self.is_well(program),
                       Late(lambda: f"{program.name} is well: {self.health(program)}"), seconds)

    def settle(self, seconds=None):
        """Until all that is durable is confirmed, which is: stored. The seconds that it took."""
        begun = time.monotonic()

        def done():
            now = self.stack.metrics(self.engine)
            return now["writ_engine_journal_seq"] == now["writ_engine_journal_durable_seq"] == now["writ_engine_publish_confirmed_seq"]
        eventually(done, Late(lambda: f"all is stored; {self.lag()}\n{self.engine.tail()}\n{self.platform.tail()}"), seconds)
        return time.monotonic() - begun

    def lag_records(self):
        return self.stack.metrics(self.engine)["writ_engine_publish_lag_records"]

    def settle_roughly(self, records=200, seconds=None, rate=100):
        """Until the lag is small, while clients go on; no faster than any store takes records."""
        rates = [load.rate for load in self.loads]
        for load in self.loads:
            load.rate = min(load.rate or rate, rate)
        eventually(lambda: self.lag_records() < records, Late(lambda: f"the lag is small; {self.lag()}\n{self.platform.tail()}"), seconds)
        for load, before in zip(self.loads, rates):
            load.rate = before

    def lag(self):
        now = self.stack.metrics(self.engine)
        return {name: now[f"writ_engine_{name}"] for name in ("journal_durable_seq", "publish_confirmed_seq")}

    def check(self, seconds=None):
        """Stops the clients and compares everything that they were told."""
        self.stop_clients()
        self.wait_well(seconds)
        verdict = checker.check(self.told, self.store(), self.keeper, lambda: self.settle(seconds))
        return verdict

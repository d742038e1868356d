"""Damaged copies of a data directory: an engine refuses them with a reason, or answers as before; never wrong.

One engine lives through a story (earlier.py): revoked and counted tokens, reviews, counters, suspensions, over two
snapshots and several segments. Copies of its directory are damaged, one or two damages each: bits flipped, bytes zeroed,
files cut, removed, swapped, doubled, taken from another engine. An engine is started on each, without a platform:

  refused   it ends, and `cannot_start` says why
  closed    it serves, and lets nobody in (a copy of the policies and keys that is not its own)
  right     it has its name, and every request of the story is answered as it has to be
  unseen    the newest records are gone, with all that tells of them (see Copy.unseen_from): only the platform can know.
            The engine's last record is then exactly the one before them

Whatever else comes of it is wrong. WRIT_LONG=1 makes 1,000 copies, else 60; WRIT_DAMAGED=N another number; WRIT_SEED=S
repeats a run's damages.
"""

import collections
import concurrent.futures
import json
import os
import pathlib
import random
import shutil
import tempfile
import threading
import time

from earlier import ASK, REFUSED, Story
from harness import LONG, Program, Stack, eventually, free_port
from wire import Closed, Wire

COUNT = int(os.environ.get("WRIT_DAMAGED", 1000 if LONG else 60))
SEED = int(os.environ.get("WRIT_SEED", random.SystemRandom().randrange(1 << 30)))
OPTIONS = ["--journal.segment", "1MiB", "--journal.keep", "0s"]
ALIGN, HEADER = 512, 128
MAGIC = b"writFRM1"


# ---- the directories that are damaged ----


def rolled(stack, story):
    """Two snapshots, the older of them behind the first segment; then more than a segment, and a last chapter."""
    engine = stack.engine_data / "engine"

    def fill():
        story.call("POST", ASK, body={"actor": "filler", "action": "get_x", "args": {"text": "x" * 60000}})

    def is_rolled():
        fill()
        return not (engine / "journal" / f"{1:016x}.journal").exists() and len(list((engine / "snapshots").glob("snapshot-*"))) == 2

    eventually(is_rolled, "the oldest segment goes")
    stack.engine.stop()
    at = stack.engine.arguments.index("--snapshot.seconds")
    stack.engine.arguments[at + 1] = "600"
    stack.engine.start()
    for _ in range(25):
        fill()


def live(folder, chapters):
    """A directory with a story, whose engine was killed when all of it was told durable."""
    stack = Stack(folder, engine=[*OPTIONS, "--reactors", "2", "--snapshot.seconds", "1"])
    stack.make_first_keys()  # the other directory is a stranger's
    stack.start()
    story = Story(stack)
    for number, name in enumerate(chapters):
        story.chapter(name)
        if number == 0:
            rolled(stack, story)
    story.end()
    stack.wait_published()
    time.sleep(2.5)  # the journal tells, and the copy of keys and policies is written
    stack.engine.kill()
    stack.platform.stop()
    return stack, story


class Origin:
    def __init__(self, folder):
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            (stack, story), (other, _) = pool.map(lambda a: live(*a), ((folder / "own", ("first", "second")), (folder / "other", ("first",))))
        self.data, self.story, self.keys = stack.data, story, story.keys
        self.node = (stack.data / "engine" / "node").read_text().strip()
        self.files = self.listed(stack.data)
        self.foreign = {name: other.data / "engine" / name for name in self.listed(other.data)}
        self.segments = sorted(name for name in self.files if name.endswith(".journal"))
        self.frames = {name: frames((stack.data / "engine" / name).read_bytes()) for name in self.segments}
        self.used = [name for name in self.segments if self.frames[name]]
        self.last_seq = max(f.end for name in self.used for f in self.frames[name]) - 1
        assert len(self.used) >= 3 and len([n for n in self.files if "snapshot-" in n]) == 2, self.files

    @staticmethod
    def listed(data):
        engine = data / "engine"
        return sorted(str(path.relative_to(engine)) for path in engine.rglob("*") if path.is_file() and path.name != "lock")


Frame = collections.namedtuple("Frame", "offset size first end durable")


def frames(content):
    """The frames of a whole segment, as frame.h describes them."""
    found, offset = [], 0
    while content[offset:offset + 8] == MAGIC:
        number = lambda at, size: int.from_bytes(content[offset + at:offset + at + size], "little")  # noqa: E731
        size = (HEADER + number(60, 4) + ALIGN - 1) // ALIGN * ALIGN
        found.append(Frame(offset, size, number(32, 8), number(32, 8) + number(56, 4), number(40, 8)))
        offset += size
    return found


# ---- damages ----


class Copy:
    """One copy; what was done to it is in `told`, where bytes changed in `spoilt` and which segments went in `gone`."""

    def __init__(self, origin, number, folder):
        self.origin, self.number, self.data = origin, number, folder / f"c{number}"
        self.chance = random.Random(f"{SEED} {number}")
        self.told, self.spoilt, self.gone = [], collections.defaultdict(list), set()
        shutil.copytree(origin.data, self.data, ignore=shutil.ignore_patterns("platform.db*", "*.sock"))
        self.engine = self.data / "engine"
        kinds = list(DAMAGES)
        self.kind = kinds[number % len(kinds)]
        for _ in range(self.chance.choice((1, 1, 1, 2))):
            DAMAGES[self.kind](self)

    def pick(self):
        """Any file that is there: a segment, a snapshot, or one of the rest."""
        there = [name for name in self.origin.files if (self.engine / name).exists()]
        groups = [[n for n in there if n.endswith(".journal")], [n for n in there if "snapshot-" in n],
                  [n for n in there if not n.endswith(".journal") and "snapshot-" not in n]]
        return self.chance.choice(self.chance.choice([g for g in groups if g] or [there]))

    def reach(self, name):
        """How far a file has anything in it, more or less."""
        size = (self.engine / name).stat().st_size
        of = self.origin.frames.get(name)
        used = of[-1].offset + of[-1].size if of else 0
        return max(1, min(size, used + 2048) if of is not None and self.chance.random() < 0.9 else size)

    def write(self, name, at, content):
        with open(self.engine / name, "r+b") as file:
            file.seek(at)
            file.write(content)
        self.spoilt[name].append((at, at + len(content)))

    def flip(self):
        name = self.pick()
        at, bit = self.chance.randrange(self.reach(name)), self.chance.randrange(8)
        with open(self.engine / name, "rb") as file:
            file.seek(at)
            byte = file.read(1)
        if byte:
            self.write(name, at, bytes([byte[0] ^ 1 << bit]))
        self.told.append(f"flip bit {bit} of byte {at} of {name}")

    def zero(self):
        name = self.pick()
        size = self.chance.choice((1, 64, 512, 4096, 4096, 65536))
        at = self.chance.randrange(self.reach(name))
        if size >= 512:
            at = at // size * size
        size = min(size, (self.engine / name).stat().st_size - at)
        if size > 0:
            self.write(name, at, b"\0" * size)
        self.told.append(f"zero {size} bytes at {at} of {name}")

    def cut(self):
        name = self.pick()
        size = self.chance.choice((0, self.chance.randrange(self.reach(name)), self.chance.randrange(self.reach(name)) // ALIGN * ALIGN))
        os.truncate(self.engine / name, size)
        self.spoilt[name].append((size, 1 << 60))
        self.told.append(f"cut {name} at {size}")

    def remove(self):
        name = self.pick()
        (self.engine / name).unlink()
        self.gone.add(name)
        self.told.append(f"remove {name}")

    def replace(self, name, content, what):
        (self.engine / name).write_bytes(content)
        self.spoilt[name].append((0, 1 << 60))
        self.told.append(what)

    def other(self, name):
        like = [n for n in self.origin.files if n != name and pathlib.Path(n).parent == pathlib.Path(name).parent and (self.engine / n).exists()]
        return self.chance.choice(like) if like else None

    def swap(self):
        one = self.pick()
        two = self.other(one)
        if two is None:
            return self.flip()
        first, second = (self.engine / one).read_bytes(), (self.engine / two).read_bytes()
        self.replace(one, second, f"swap {one} and {two}")
        self.replace(two, first, "(both)")

    def double(self):
        one = self.pick()
        two = self.other(one)
        if two is None or self.chance.random() < 0.2:  # under the next name
            two = {"journal": f"journal/{len(self.origin.segments) + 40:016x}.journal", "snapshots": f"snapshots/snapshot-{1 << 40:016x}"}.get(
                str(pathlib.Path(one).parent), one + ".copy")
        self.replace(two, (self.engine / one).read_bytes(), f"write {one} also as {two}")

    def take(self):
        """A file of the other engine, in the place of our own of this name, or beside them."""
        name = self.chance.choice(sorted(self.origin.foreign))
        if self.chance.random() < 0.3 and "snapshot-" in name:
            for own in self.engine.glob("snapshots/snapshot-*"):
                own.unlink()
        self.replace(name, self.origin.foreign[name].read_bytes(), f"take {name} from another engine")

    def take_all(self):
        """All files of one kind of the other engine."""
        folder = self.chance.choice(("journal", "snapshots"))
        for own in (self.engine / folder).glob("*"):
            own.unlink()
        for name, path in self.origin.foreign.items():
            if name.startswith(folder):
                self.replace(name, path.read_bytes(), f"take {name}")
        self.told = [f"take {folder}/ from another engine"]

    def unseen_from(self):
        """The first record that is gone, if no file that is left shows it; None if one does.

        Only whole ends of the journal: all segments from one on, or all bytes from a frame on, are gone or zeros."""
        lost, left = None, 0
        for name in self.origin.used:
            for f in self.origin.frames[name]:
                hit = name in self.gone or any(a < f.offset + f.size and b > f.offset for a, b in self.spoilt[name])
                head = name in self.gone or any(a < f.offset + HEADER and b > f.offset for a, b in self.spoilt[name])
                if hit and lost is None:
                    lost = f.first
                if not head:
                    left = max(left, f.durable)
        return lost if lost is not None and lost <= self.origin.last_seq and left < lost else None


DAMAGES = {"flip": Copy.flip, "zero": Copy.zero, "cut": Copy.cut, "remove": Copy.remove, "swap": Copy.swap, "double": Copy.double,
           "take": Copy.take, "take_all": Copy.take_all}


# ---- what comes of it ----


class Try:
    def __init__(self, copy):
        self.copy, self.keys, self.why = copy, copy.origin.keys, ""
        self.program = Program("writ-engine", free_port(), [
            "--data", copy.data, "--pepper.file", copy.data / "pepper", "--reactors", "1", *OPTIONS], copy.data.with_suffix(".log"))
        self.program.arguments += ["--listen", f"127.0.0.1:{self.program.port}"]

    def outcome(self):
        try:
            self.program.start(ready=False)
            return self.settled()
        finally:
            self.program.end()

    def lines(self):
        return [json.loads(line) for line in self.program.tail(1 << 20).splitlines() if line.startswith("{")]

    def settled(self):
        deadline, ready = time.monotonic() + 60, 0
        while ready == 0:
            if self.program.process.poll() is not None:
                return self.ended()
            assert time.monotonic() < deadline, "neither ready nor ended"
            try:
                with Wire(self.program.address, timeout=5) as wire:
                    ready = wire.get("/readyz").status
            except (Closed, OSError):
                time.sleep(0.01)
        wrong, loose = self.compare()
        foreign = any(name == "bundle" or name.startswith("bundle") for name in [*self.copy.spoilt, *self.copy.gone])
        unseen = self.copy.unseen_from()
        if not wrong:
            return "right"
        if ready != 200 or foreign:
            self.why = "; ".join(loose)
            return "wrong" if loose else "closed"
        if unseen is not None:
            last = next(int(line["last_seq"]) for line in self.lines() if line["event"] == "journal_recovered")
            if last == unseen - 1:
                return "unseen"
        self.why = "; ".join(wrong[:3])
        return "wrong"

    def ended(self):
        status = self.program.process.returncode
        said = [line for line in self.lines() if line["event"] == "cannot_start"]
        self.why = said[0]["why"] if said else f"status {status}: {self.program.tail(600)}"
        return "refused" if said and status in (1, 2) else "wrong"

    def compare(self):
        """Rows that are not answered as they have to be; and those of them that let somebody do something."""
        wrong, loose, wires = [], [], {}
        with Wire(self.program.address, timeout=20) as wire:
            node = wire.get("/healthz").json["node"]
        if node != self.copy.origin.node:
            loose.append(f"it calls itself {node}")
            wrong.append(loose[0])
        for row in self.copy.origin.story.later:
            key = row["key"]
            if key not in wires:
                wires[key] = Wire(self.program.address, self.keys.get(key, key), timeout=20)
            try:
                reply = wires[key].request(row["method"], row["path"], body=row["body"], headers=row["headers"])
            except (Closed, OSError):
                wrong.append(f"{row['what']}: no answer")
                continue
            if reply.status != row["http"] or any(reply.json.get(name) != value for name, value in row["members"].items()):
                wrong.append(f"{row['what']}: {reply}"[:300])
                if reply.status not in (REFUSED, 503):
                    loose.append(wrong[-1])
        for wire in wires.values():
            wire.close()
        return wrong, loose


def test_damaged_copies_are_refused_or_answered_right():
    print(f"\nWRIT_SEED={SEED}")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="writ-damaged-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None))
    try:
        judge(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def judge(folder):
    for name in ("own", "other", "copies"):
        (folder / name).mkdir()
    origin = Origin(folder)
    sums, wrong, lock = collections.defaultdict(collections.Counter), [], threading.Lock()

    def one(number):
        copy = Copy(origin, number, folder / "copies")
        attempt = Try(copy)
        outcome = attempt.outcome()
        with lock:
            sums[copy.kind][outcome] += 1
            if outcome == "wrong":
                wrong.append(f"copy {number}: {', '.join(copy.told)}: {attempt.why}")
            if os.environ.get("WRIT_VERBOSE"):
                print(number, copy.kind, outcome, copy.told, attempt.why[:200], flush=True)
        shutil.rmtree(copy.data)
        copy.data.with_suffix(".log").unlink(missing_ok=True)

    whole = Copy.__new__(Copy)  # what nothing was done to is right, or nothing below would mean anything
    whole.origin, whole.data, whole.spoilt, whole.gone = origin, folder / "copies" / "whole", collections.defaultdict(list), set()
    shutil.copytree(origin.data, whole.data)
    attempt = Try(whole)
    assert attempt.outcome() == "right", attempt.why
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 2) as pool:
        list(pool.map(one, range(COUNT)))
    columns = ("refused", "right", "closed", "unseen", "wrong")
    print(f"{'damage':<10}" + "".join(f"{c:>9}" for c in columns))
    for kind, counts in sorted(sums.items()):
        print(f"{kind:<10}" + "".join(f"{counts[c]:>9}" for c in columns))
    print(f"{sum(sum(c.values()) for c in sums.values())} damaged copies")
    assert not wrong, f"WRIT_SEED={SEED}\n" + "\n".join(wrong)

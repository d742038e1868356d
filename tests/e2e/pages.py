"""Documents as tests: each command that a page prints is run, and each answer that it prints is compared.

The language of a fence decides what happens with its text:

    ```sh             is run, in the order of the page, in one shell
    ```sh terminal-2  is run in another shell, which begins with nothing set
    ```sh fails       is run, and one of its commands has to fail
    ```sh waits       is run beside the blocks that follow, until the end of the page
    ```json           is what the block before prints; ids, times, hashes and latencies may differ
    ```output         is what the block before prints, as text; an … stands for any characters, a line of it for any lines
    ```python NAME    (or js, yaml, conf …) is a file that the reader saves as NAME
    ```console, ```text, and all others without a NAME are only shown

A block that is only `ops/run` is the fixture's: both programs run already.
"""

import json
import os
import pathlib
import re
import select
import signal
import subprocess
from dataclasses import dataclass, field

import harness

FENCE = re.compile(r"^```(\w*) *([^\n]*)\n(.*?)^```$", re.M | re.S)
LANGUAGES = set("sh console text json output python js yaml conf ini toml sql http promql mermaid".split())
VOLATILE = re.compile(r"(^|_)(id|hash|at|ms|timestamp|epoch|node|seq|salt)$")
SERVER = re.compile(r"^ops/run$|dev-keys\.env", re.M)


@dataclass
class Block:
    page: str
    line: int
    language: str
    words: list = field(default_factory=list)
    text: str = ""

    def __str__(self):
        return f"{self.page}:{self.line}:\n{self.text}"


class Page:
    def __init__(self, path):
        self.path, self.name = path, os.path.relpath(path, harness.TOP)
        self.text = path.read_text()
        self.blocks = [Block(self.name, self.text.count("\n", 0, match.start()) + 1, match[1], match[2].split(), match[3])
                       for match in FENCE.finditer(self.text)]

    def of(self, language):
        return [block.text for block in self.blocks if block.language == language]

    def files(self):
        """Blocks that are files, by name."""
        return {block.words[0]: block for block in self.blocks if block.language not in ("sh", "console") and block.words}

    @property
    def is_run(self):
        return bool(self.of("sh"))

    @property
    def needs_server(self):
        return any(SERVER.search(text) for text in self.of("sh"))


def pages():
    return [Page(path) for path in [harness.TOP / "README.md", *sorted((harness.TOP / "docs").rglob("*.md"))]]


# ---- answers ----


def steady(value, name=""):
    """The value with what differs from run to run replaced by its kind; member order kept."""
    if isinstance(value, dict):
        return [(key, steady(member, re.sub("([A-Z])", r"_\1", key).lower())) for key, member in value.items()]
    if isinstance(value, list):
        return [steady(item, name) for item in value]
    if VOLATILE.search(name) and not (name == "trace_id" and not re.fullmatch("[0-9a-f]{32}", str(value))):
        return type(value).__name__ if not isinstance(value, (int, float)) else "number"
    return value


def matches(printed, expected):
    """Whether a text is the one that the page shows."""
    lines = expected.rstrip("\n").split("\n")
    pattern = "".join(r"(?:[^\n]*\n)*?" if line == "…" else re.escape(line).replace("…", "[^\n]*") + "\n" for line in lines)
    return re.fullmatch(pattern, printed.rstrip("\n") + "\n") is not None


def assert_is(block, printed, answer):
    """That a block printed what the page shows under it."""
    if answer.language == "json":
        assert steady(json.loads(printed)) == steady(json.loads(answer.text)), f"{block}{printed}"
    else:
        assert matches(printed, answer.text), f"{block}printed\n{printed}and not\n{answer.text}"


# ---- running ----


class Terminal:
    """One shell of the reader's."""

    def __init__(self, folder, notes, environment):
        self.notes, self.count = notes, 0
        notes.mkdir()
        self.shell = subprocess.Popen(["bash", "--noprofile", "--norc"], cwd=folder, env=environment, stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
        self.send("set -o pipefail; trap 'failed=$BASH_COMMAND' ERR")

    def send(self, line):
        self.shell.stdin.write(f"{line}\n".encode())
        self.shell.stdin.flush()

    def note(self, text):
        """The files of the next block: its commands, output and errors."""
        self.count += 1
        path = self.notes / f"{self.count}.sh"
        path.write_text(text)
        return path, path.with_suffix(".out"), path.with_suffix(".err")

    def run(self, block, text):
        """What the block prints."""
        script, out, err = self.note(text)
        self.send(f"failed=; . {script} >{out} 2>{err} </dev/null; echo \"did ${{failed@Q}}\"")
        ready, _, _ = select.select([self.shell.stdout], [], [], harness.PATIENCE)
        assert ready, f"{block}still runs; it printed\n{out.read_text()}{err.read_text()}"
        line = self.shell.stdout.readline().decode()
        failed = line.strip() not in ("did", "did ''")
        assert line.startswith("did") and failed == ("fails" in block.words), \
            f"{block}{line}printed\n{out.read_text()}{err.read_text()}"
        return out.read_text()

    def begin(self, block, text):
        """Runs a block beside the next ones. Returns two functions: what it printed, or None while it runs; what it has printed so far."""
        script, out, err = self.note(text)
        status = script.with_suffix(".status")
        self.send(f"(. {script} >{out} 2>{err} </dev/null; echo $? >{status}) &")

        def ended():
            if not status.exists() or not status.read_text():
                return None
            failed = status.read_text() != "0\n"
            assert failed == ("fails" in block.words), f"{block}{status.read_text()}printed\n{out.read_text()}{err.read_text()}"
            return out.read_text()

        return ended, lambda: out.exists() and out.read_text()

    def close(self):
        os.killpg(self.shell.pid, signal.SIGKILL)
        self.shell.communicate()


class Reader:
    """Follows pages in one folder, which looks like the clone that they speak of."""

    def __init__(self, folder, notes, path, run=None, omit=None):
        self.folder, self.notes, self.run, self.omit = folder, notes, run, omit
        notes.mkdir()
        self.environment = {"PATH": path, "HOME": str(folder), "LC_ALL": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"}
        if run:
            self.environment |= {"WRIT_ENGINE_URL": f"http://127.0.0.1:{run.engine_port}", "WRIT_PLATFORM_URL": f"http://127.0.0.1:{run.platform_port}"}

    def here(self, text):
        """A text with the addresses of the programs under test."""
        if self.run:
            text = text.replace("127.0.0.1:8080", f"127.0.0.1:{self.run.engine_port}")
            text = text.replace("127.0.0.1:9090", f"127.0.0.1:{self.run.platform_port}")
        return text

    def connections(self):
        """How many clients are connected to the engine."""
        rows = pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]
        return sum(row.split()[1].endswith(f":{self.run.engine_port:04X}") and row.split()[3] == "01" for row in rows)

    def begin(self, terminal, block):
        """Runs a block that waits for a person, until it does: curl when it has connected, a program when it prints that it waits."""
        count, text = self.connections(), self.here(block.text)
        ended, printed = terminal.begin(block, text)
        waits = (lambda: self.connections() > count) if "/wait?" in text else printed
        harness.eventually(lambda: waits() or ended() is not None, f"{block}waits")
        return ended

    def follow(self, page):
        """Does what the page asks for; [(block, what it printed)]."""
        terminals, begun, done = {}, [], []
        try:
            for place, block in enumerate(page.blocks):
                answer = page.blocks[place + 1] if place + 1 < len(page.blocks) and page.blocks[place + 1].language in ("json", "output") else None
                if block.language != "sh":
                    if block in page.files().values():
                        (self.folder / block.words[0]).write_text(self.here(block.text))
                    continue
                if block.text == "ops/run\n" or (self.omit and self.omit(block)):
                    continue
                name = next((word for word in block.words if word.startswith("terminal-")), "terminal-1")
                if name not in terminals:
                    terminals[name] = Terminal(self.folder, self.notes / f"{page.path.stem}-{name}", self.environment)
                if "waits" in block.words:
                    begun.append((block, self.begin(terminals[name], block), answer))
                    continue
                if answer and re.search(r"/audit/|audit trace", block.text):  # a record may take a moment to arrive
                    printed = harness.eventually(lambda: self.arrived(terminals[name], block, answer), block)
                else:
                    printed = terminals[name].run(block, self.here(block.text))
                if answer:
                    assert_is(block, printed, answer)
                done.append((block, printed))
            for block, ended, answer in begun:
                printed = harness.eventually(lambda: ended() is not None and (ended() or "\n"), f"{block}ends")
                if answer:
                    assert_is(block, printed, answer)
                done.append((block, printed))
        finally:
            for terminal in terminals.values():
                terminal.close()
        return done

    def arrived(self, terminal, block, answer):
        try:
            printed = terminal.run(block, self.here(block.text))
            assert_is(block, printed, answer)
        except (AssertionError, ValueError):
            return None
        return printed


def clone(folder):
    """A folder that looks like a clone that is built."""
    for name in ("clients", "ops", "schemas", "src", "README.md"):
        (folder / name).symlink_to(harness.TOP / name)
    (folder / "build" / "release").mkdir(parents=True)
    (folder / "build" / "release" / "bin").symlink_to(harness.BIN)
    return folder


def node_version():
    """The major version of node, or 0."""
    try:
        return int(re.match(r"v(\d+)", subprocess.run(["node", "--version"], capture_output=True, text=True).stdout)[1])
    except (OSError, TypeError):
        return 0

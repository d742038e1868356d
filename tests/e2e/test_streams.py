"""The standard streams are somebody else's: closed, or a pipe that nobody reads. Neither costs a record or an answer."""

import contextlib
import json
import os

import pytest
from conftest import BASE_POLICY
from survivors import AGENT

DECISIONS = 200


def shell(redirections):
    """Words before a command that start it with these."""
    return ["sh", "-c", f'exec "$@" {redirections}', "sh"]


def decide(stack, count):
    """Each over a connection of its own; all are in the trail."""
    for _ in range(count):
        with stack.at_engine("agent") as wire:
            reply = wire.post(AGENT, {"action": "get_x"})
            assert reply.status == 200
    stack.trace(reply.json["trace_id"])


def test_no_file_and_no_socket_takes_the_number_of_a_stream_that_is_closed(fresh):
    closed = shell("<&- >&- 2>&-")
    stack = fresh(engine_prefix=closed, platform_prefix=closed)
    stack.start()
    decide(stack, 1)
    for program in (stack.engine, stack.platform):
        assert [os.readlink(f"/proc/{program.pid}/fd/{stream}") for stream in range(3)] == ["/dev/null"] * 3
        program.stop()


class Log:
    """A pipe for a program's log. While nobody reads, it is full."""

    def __init__(self, path):
        os.mkfifo(path)
        self.path, self.fd, self.bytes = path, os.open(path, os.O_RDWR | os.O_NONBLOCK), b""

    def fill(self):
        for size in (4096, 1):
            with contextlib.suppress(BlockingIOError):
                while True:
                    os.write(self.fd, b"\n" * size)

    def read(self):
        """All lines so far."""
        with contextlib.suppress(BlockingIOError):
            while True:
                self.bytes += os.read(self.fd, 1 << 16)
        return [json.loads(line) for line in self.bytes.decode().splitlines() if line]


@pytest.fixture
def logs(tmp_path):
    made = [Log(tmp_path / name) for name in ("engine.pipe", "platform.pipe")]
    yield made
    for log in made:
        os.close(log.fd)


def test_a_log_that_nobody_reads_holds_up_nobody(fresh, logs):
    """At debug each decision is a line. The lines are lost, and counted."""
    debug = ["--log.level", "debug"]
    stack = fresh(engine_prefix=shell(f"2>{logs[0].path}"), platform_prefix=shell(f"2>{logs[1].path}"), engine=debug, platform=debug)
    for log in logs:
        log.fill()
    stack.start()
    stack.policy("base", BASE_POLICY)
    decide(stack, DECISIONS)
    for log, program, least in zip(logs, (stack.engine, stack.platform), (DECISIONS, 1)):
        assert log.read() == []
        program.stop()
        lines = log.read()
        assert [line["event"] for line in lines].count("log_lines_lost") == 1, lines
        assert lines[0]["event"] == "log_lines_lost" and int(lines[0]["count"]) >= least, lines
        assert len(lines) > 1, "and what is told from then on is there"

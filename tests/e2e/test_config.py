"""What is wrong with a setting is said at the start, with where the setting came from."""
import json
import os
import socket
import subprocess

import pytest

import harness

# What is written into the file, given as flags, and set in the environment; then what the last line of the log says.
REFUSED = {
    "a listening address of another machine": ("writ-platform", "listen = 192.0.2.1:9090", [], {}, "listen ({file}:1): 192.0.2.1:9090: "),
    "a socket that is a directory": ("writ-engine", "", [], {"WRIT_LISTEN_UNIX": "/"}, "listen.unix (environment WRIT_LISTEN_UNIX): / exists and is not a socket"),
    "a span that is too short for its use": ("writ-platform", "\naudit.keep = 1h", [], {}, "audit.keep ({file}:2): must be 0 (events are never removed), or at least 1d"),
    "no database's address": ("writ-platform", "", ["--store.url", "mysql://x"], {}, "store.url (flag): is not an address of PostgreSQL"),
    "two stores": ("writ-platform", "store = other.db", ["--store.url", "postgresql://127.0.0.1:1/writ"], {}, "store ({file}:1), store.url (flag): both are set; set only one of them"),
    "a node that is no name": ("writ-engine", "", ["--node", "a b"], {}, "node (flag): must be 1 to "),
    "a pepper that is not one": ("writ-engine", "pepper_file = {file}", [], {}, "pepper_file ({file}:1): {file} must hold 64 lowercase hex digits"),
    "options that contradict": ("writ-platform", "kafka.brokers = 127.0.0.1:1", ["--kafka.user", "me"], {"WRIT_KAFKA_SECURITY": "ssl"},
                                "kafka.user (flag), kafka.password_file, kafka.token_file: there is no login with kafka.security (environment WRIT_KAFKA_SECURITY) = ssl"),
    "brokers without a platform": ("writ-engine", "kafka.brokers = 127.0.0.1:1", [], {}, "kafka.brokers ({file}:1): needs platform.url beside it"),
    "a platform without a key": ("writ-engine", "", ["--platform.url", "http://127.0.0.1:1"], {}, "platform.key_file: is needed beside platform.url"),
    "a certificate that is not there": ("writ-engine", "platform.url = http://127.0.0.1:1", ["--platform.key_file", "{key}", "--kafka.brokers", "127.0.0.1:1", "--kafka.security", "ssl", "--kafka.ca_file", "/nonexistent"], {},
                                        "Kafka: kafka.ca_file (flag) cannot be used"),
    "a Redis without an address": ("writ-engine", "redis.url = x:y", [], {}, "redis.url ({file}:1): "),
    "a Redis user who does not log in": ("writ-engine", "redis.url = unix:/nonexistent", ["--redis.user", "me"], {}, "redis.user (flag): needs redis.password_file beside it"),
    "a CA for a Redis without TLS": ("writ-engine", "redis.url = unix:/nonexistent", ["--redis.ca_file", "/ca.pem"], {}, "redis.ca_file (flag), redis.url ({file}:1): nothing is encrypted"),
}

# What a text may be: the option, values that are refused, and what the refusal and the option's row in config.md both say.
TEXTS = {
    "node": ("writ-engine", [], ["n" * 65, "a b", "é"], "1 to 64 of [A-Za-z0-9._-]"),
    "token.issuer": ("writ-engine", [], ["", "i" * 257], "1 to 256 characters"),
    "token.audience": ("writ-engine", [], ["", "é" * 257], "1 to 256 characters"),
    "kafka.topic": ("writ-platform", ["--kafka.brokers", "127.0.0.1:1"], ["", "t" * 250, "a b"], "1 to 249 of letters, digits, '.', '_' and '-'"),
    "policies.tenant": ("writ-platform", ["--policies.dir", "/tmp"], ["", "*", "t" * 257], "1 to 256 characters, not *"),
}

# What another start may find better, so that a supervisor is told to try.
LATER_PERHAPS = ("a listening address of another machine", "a socket that is a directory")


def has_started(tmp_path):
    return any(b"engine.started" in segment.read_bytes() for segment in (tmp_path / "data/engine/journal").glob("*.journal"))


def last_words(tmp_path, program, text, flags, environment, status=2):
    file = tmp_path / "writ.conf"
    file.write_text(text.replace("{file}", str(file)) + "\n")
    file.chmod(0o600)
    key = tmp_path / "right.key"
    key.write_text(subprocess.run([harness.BIN / "writ", "key", "create", "--data", tmp_path / "keys", "--name", "n", "--owner", "o", "--roles", "ingest"],
                                  capture_output=True, text=True, check=True).stdout)
    key.chmod(0o600)
    command = [harness.BIN / program, "--config", file, "--data", tmp_path / "data", *(str(key) if word == "{key}" else word for word in flags)]
    if not any(word.startswith("listen =") for word in text.splitlines()):
        command += ["--listen", "127.0.0.1:0"]
    done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, timeout=harness.PATIENCE)
    last = json.loads(done.stderr.splitlines()[-1])
    assert (done.returncode, last["event"]) == (status, "cannot_start"), done.stderr
    return last["why"], str(file)


@pytest.mark.parametrize("name", REFUSED)
def test_a_setting_that_is_refused_is_named_with_its_place(tmp_path, name):
    *given, said = REFUSED[name]
    why, file = last_words(tmp_path, *given, status=1 if name in LATER_PERHAPS else 2)
    assert why.startswith(said.replace("{file}", file)), why
    assert not has_started(tmp_path), "it was no start"


@pytest.mark.parametrize("program", ["writ-engine", "writ-platform"])
def test_a_variable_that_is_no_option_is_told(tmp_path, program):
    """A slip ends the start; what is further from any option may be somebody else's."""
    environment = {"WRIT_DURABLE": "written", "WRIT_JOURNAL_KEEP_DAYS": "1", "WRIT_KEEP": "", "WRIT_KEY": "wk_secret", "WRIT_BUILD": "b"}
    done = subprocess.run([harness.BIN / program, "--data", tmp_path / "data", "--listen", "192.0.2.1:9"], env=os.environ | environment,
                          capture_output=True, text=True, timeout=harness.PATIENCE)
    told = [line["text"].split()[0] for line in map(json.loads, done.stderr.splitlines()) if line["event"] == "variable_unknown"]
    assert sorted(told) == ["WRIT_DURABLE", "WRIT_JOURNAL_KEEP_DAYS"], done.stderr
    assert "wk_secret" not in done.stderr


IDLE = {  # program: what it is given, and which of it is told
    "writ-engine": (["kafka.topic = writ.audit.v1", "otlp.sample = 0.5", "policies.tenant = acme", "redis.ca_file ="],
                    ["--redis.user", "me", "--journal.keep", "1h"], ["kafka.topic", "otlp.sample", "platform.key_file", "redis.user"]),
    "writ-platform": (["kafka.user = me", "otlp.sample = 0.5", "policies.tenant = acme"], ["--policies.rescan", "1s"],
                      ["kafka.user", "policies.rescan", "policies.tenant"]),
}
WHAT_IT_NEEDS = ["kafka.brokers = 192.0.2.1:9092", "otlp.url = http://192.0.2.1:4318", "redis.url = tcp://192.0.2.1:6379",
          "platform.url = http://192.0.2.1:9090", "policies.dir = {here}"]


@pytest.mark.parametrize("program", IDLE)
def test_an_option_of_something_that_is_not_set_is_told(tmp_path, program):
    """Not refused: a file may hold what several installations share, and only some have a Kafka."""
    lines, flags, idle = IDLE[program]
    environment = os.environ | {"WRIT_PLATFORM_KEY_FILE": str(tmp_path / "key")}
    (tmp_path / "key").write_text("wk_x")
    (tmp_path / "key").chmod(0o600)
    file = tmp_path / "writ.conf"

    def told(text):
        file.write_text(text)
        done = subprocess.run([harness.BIN / program, "--config", file, "--data", tmp_path / "data", "--listen", "192.0.2.1:9", *flags],
                              env=environment, capture_output=True, text=True, timeout=harness.PATIENCE)
        return {line["text"].split()[0]: line["text"] for line in map(json.loads, done.stderr.splitlines()) if line["event"] == "option_idle"}

    said = told("\n".join(lines))
    assert sorted(said) == idle, said
    topic = idle[0]
    assert said[topic].startswith(f"{topic} ({file}:1) ") and "kafka.brokers" in said[topic], said
    needed = [line for line in WHAT_IT_NEEDS if program == "writ-engine" or line.startswith(("kafka", "policies"))]
    assert told("\n".join(lines + needed).format(here=tmp_path)) == {}


def test_names_of_the_version_before_are_read_and_logged(tmp_path):
    file = tmp_path / "writ.conf"
    file.write_text("snapshot.seconds = 600\njournal.lazy = 20ms\n")
    done = subprocess.run([harness.BIN / "writ-engine", "--config", file, "--data", tmp_path / "data", "--listen", "192.0.2.1:9", "--token.rotate_days", "30"],
                          env=os.environ | {"WRIT_JOURNAL_SEGMENT": "2MiB"}, capture_output=True, text=True, timeout=harness.PATIENCE)
    lines = [line["text"] for line in map(json.loads, done.stderr.splitlines()) if line["event"] == "option_former"]
    assert [line.split(":")[0].split(" (")[0] for line in sorted(lines)] == ["journal.lazy", "journal.segment", "snapshot.seconds", "token.rotate_days"], done.stderr
    assert any("is now called snapshot.interval" in line for line in lines) and any("is now called journal.segment_size" in line for line in lines), lines


@pytest.mark.parametrize("name", TEXTS)
def test_what_a_text_may_be_is_described(tmp_path, name):
    program, beside, refused, said = TEXTS[name]
    row = next(line for line in (harness.TOP / "schemas/config.md").read_text().splitlines() if line.startswith(f"| `{name}` |"))
    assert said in row
    for value in refused:
        why, _ = last_words(tmp_path, program, "", [*beside, f"--{name}={value}"], {})
        assert why.startswith(f"{name} (flag): must ") and said in why, why


def test_what_another_start_may_find_better_ends_with_another_status(tmp_path):
    """2 keeps a supervisor from starting again."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        for program in "writ-engine", "writ-platform":
            why, _ = last_words(tmp_path, program, f"listen = 127.0.0.1:{taken.getsockname()[1]}", [], {}, status=1)
            assert "Address already in use" in why, why
    assert not has_started(tmp_path), "it was no start"


def test_a_secret_of_ours_that_others_may_read_ends_the_start(tmp_path):
    key = tmp_path / "platform.key"
    key.write_text("wk_\n")
    key.chmod(0o640)
    why, _ = last_words(tmp_path, "writ-engine", "platform.url = http://127.0.0.1:1", ["--platform.key_file", str(key)], {})
    assert why == f"platform.key_file (flag): {key} is open to others (mode 640): chmod 600 it, and treat its content as known to others"


# What people write into an address.
WITH_A_SECRET = [
    ("writ-engine", "platform.url", "http://me:hunter2@127.0.0.1:9090"), ("writ-platform", "engine.url", "http://127.0.0.1:8080/?key=hunter2"),
    ("writ-engine", "otlp.url", "http://127.0.0.1:4318?api_key=hunter2"), ("writ-platform", "listen", "me:hunter2@127.0.0.1:1"),
    ("writ-platform", "kafka.brokers", "me:hunter2@127.0.0.1:9092"), ("writ-platform", "kafka.brokers", "me:hunter2@127.0.0.1"),
    ("writ-platform", "kafka.brokers", "127.0.0.1:1,me:hunter2@[::1]:9092"), ("writ-platform", "kafka.brokers", "me:hunter2,3@[::1]:9092"),
    ("writ-platform", "kafka.brokers", "SASL_SSL://me:hunter2@127.0.0.1:9092"), ("writ-engine", "redis.url", "redis://:hunter2@127.0.0.1:1"),
    ("writ-engine", "redis.url", "tcp://127.0.0.1:1?password=hunter2"), ("writ-platform", "store.url", "mysql://me:hunter2@127.0.0.1/writ")]


@pytest.mark.parametrize("program, option, address", WITH_A_SECRET)
def test_a_password_in_an_address_is_not_told(tmp_path, program, option, address):
    done = subprocess.run([harness.BIN / program, "--data", tmp_path, "--listen", "127.0.0.1:0", f"--{option}", address], capture_output=True, text=True, timeout=harness.PATIENCE)
    assert done.returncode == 2 and option in done.stderr, done.stderr
    assert "hunter2" not in done.stdout + done.stderr, done.stderr


# Of each program with these options, how many descriptors it asks for.
NEEDED = {
    "an engine with one reactor": ("engine", ["--reactors", "1"], 51),
    "an engine with as many as there may be": ("engine", ["--reactors", "64"], 240),
    "a platform": ("platform", [], 40),
    "a platform with many readers": ("platform", ["--store.readers", "8"], 52),
}


@pytest.mark.parametrize("name", NEEDED)
def test_a_program_with_too_few_descriptors_says_how_many_it_needs(fresh, name):
    who, options, needed = NEEDED[name]
    stack = fresh(**{who: options, f"{who}_prefix": ["prlimit", f"--nofile={needed}:{needed}"]}).start()
    assert stack.metrics(getattr(stack, who))["writ_process_open_fds"] <= needed
    with stack.at_engine() as wire:
        assert wire.post("/v1/agent/authorize", {"action": "get_x", "actor": "x"}).json["decision"] == "deny"
    stack.wait_published()
    program = getattr(stack, who)
    program.stop()
    for fewer in (8, needed - 1):
        program.prefix = ["prlimit", f"--nofile={fewer}:{fewer}"]
        program.start(ready=False)
        assert program.wait() == 2, program.tail()
        last = json.loads(program.tail().splitlines()[-1])
        assert (last["event"], last["why"]) == ("cannot_start", f"ulimit -n is {fewer}, and {needed} are needed")


THREADS = {"platform": ["writer", "reader", "reader", "keeper"],
           "engine": ["signals", "journal-writer", "journal-syncer", "journal-keeper", "keep", "offload", "reactor-0", "reactor-1", "feed", "publisher"]}


@pytest.mark.parametrize("who", THREADS)
def test_a_program_that_may_not_have_its_threads_says_so(fresh, who):
    """ulimit -u, or a container's limit of tasks, is met at whichever thread is one too many."""
    stack = fresh(engine=["--reactors", "2"])
    stack.make_first_keys()
    program = getattr(stack, who)
    for n, name in enumerate(THREADS[who], 1):
        program.prefix = ["strace", "-D", "-f", "-qqq", "-o", "/dev/null", "-e", "trace=?clone3,clone",
                          "-e", f"inject=?clone3,clone:error=EAGAIN:when={n}+"]
        program.start(ready=False)
        assert program.wait() == 1, program.tail()
        last = json.loads(program.tail().splitlines()[-1])
        assert last["event"] == "cannot_start" and "ulimit -u" in last["why"], last
        assert last["why"].startswith(f"the thread {name} cannot be started: Resource temporarily unavailable"), last

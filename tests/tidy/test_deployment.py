"""Services, containers and build directories, held to what the programs take and to each other."""

import configparser
import pathlib
import re
import shlex
import shutil
import subprocess

import pytest
import yaml

TOP = pathlib.Path(__file__).resolve().parents[2]
UNITS = sorted((TOP / "ops" / "systemd").glob("*.service"))
DOCKERFILE = (TOP / "ops" / "Dockerfile").read_text()
COMPOSE = ["compose.yaml", "compose.stack.yaml"]


def options(program):
    """{option: variable} of one program, from the reference that is what it prints."""
    parts = re.split(r"^## (.+)$", (TOP / "schemas" / "config.md").read_text(), flags=re.M)
    sections = dict(zip(parts[1::2], parts[2::2]))
    rows = re.findall(r"^\| `([a-z_.]+)` \| `(WRIT_\w+)` \|", sections["Both programs"] + sections[program], re.M)
    assert len(rows) > 20, "schemas/config.md was not understood"
    return dict(rows)


def unit(path):
    parser = configparser.ConfigParser(interpolation=None, strict=True)
    parser.optionxform = str
    parser.read(path)
    return parser


def services(name):
    return yaml.safe_load((TOP / "ops" / name).read_text())["services"]


def assert_are_options(where, words):
    program = pathlib.Path(words[0]).name
    wrong = {word for word in words if word.startswith("--")} - {f"--{name}" for name in [*options(program), "config"]}
    assert not wrong, f"{where}: {program} has no {wrong}"


# ---- services ----


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_a_unit_starts_its_program_with_options_that_it_has(path):
    words = shlex.split(unit(path)["Service"]["ExecStart"])
    assert pathlib.Path(words[0]).name == path.stem
    assert_are_options(path.name, words)


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_a_service_is_started_again_for_as_long_as_it_takes(path):
    """systemd gives up at five starts in ten seconds, and a platform ends at once where its PostgreSQL is not up yet.
    A wrong setting (status 2) is no matter of time."""
    parts = unit(path)
    assert parts["Service"]["Restart"] == "on-failure" and parts["Unit"].get("StartLimitIntervalSec") == "0"
    assert parts["Service"].get("RestartPreventExitStatus") == "2"


def test_the_units_are_confined_alike_as_two_users_with_a_directory_each():
    own = ("ExecStart", "User", "Group", "StateDirectory")
    engine, platform = ({key: value for key, value in unit(path)["Service"].items() if key not in own} for path in UNITS)
    assert engine == platform and engine["StateDirectoryMode"] == "0700"
    for path in UNITS:
        service = unit(path)["Service"]
        assert service["User"] == service["Group"] == service["StateDirectory"] == path.stem
        words = shlex.split(service["ExecStart"])
        assert words[words.index("--data") + 1] == f"/var/lib/{path.stem}"
        assert not [word for word in words if word.startswith("/var/lib/") and not word.startswith(f"/var/lib/{path.stem}")]


# ---- containers ----


@pytest.mark.parametrize("name", COMPOSE)
def test_a_container_is_started_with_options_that_its_program_has(name):
    for service, about in services(name).items():
        if service in ("engine", "platform"):
            program = f"writ-{service}"
            assert_are_options(f"{name}, {service}", about.get("command", [program]))
            wrong = set(about.get("environment", {})) - set(options(program).values()) - {"PGPASSWORD"}  # libpq's
            assert not wrong, f"{name}: {program} does not read {wrong}"


def test_a_containers_ports_and_places_are_those_of_its_program():
    (volume,) = re.findall(r"^VOLUME (\S+)$", DOCKERFILE, re.M)
    for service, about in services("compose.yaml").items():
        assert volume in about["command"]
        if service != "keys":
            assert about["volumes"] == [f"{service}:{volume}"], "neither program has the other's files"
            port = about["command"][about["command"].index("--listen") + 1].split(":")[1]
            assert about["ports"] == [f"127.0.0.1:{port}:{port}"], "on the loopback address only: it speaks no TLS"
            assert f"http://127.0.0.1:{port}/readyz" in about["healthcheck"]["test"]


def test_the_programs_are_two_users_and_only_the_keys_are_made_by_root():
    about = services("compose.yaml")
    platform, engine = (re.search(rf"useradd --system --uid (\d+) --gid writ-{name}", DOCKERFILE)[1] for name in ("platform", "engine"))
    assert re.search(r"^USER (\S+)$", DOCKERFILE, re.M)[1] == f"{platform}:{platform}" and "user" not in about["platform"]
    assert about["engine"]["user"] == f"{engine}:{engine}" and about["keys"]["user"] == "0:0"
    assert about["keys"]["volumes"] == ["platform:/data", "engine:/engine"] and about["keys"]["command"][2:] == ["/data", "/engine"]
    assert "-o writ-engine -g writ-engine -m 0700 /engine" in DOCKERFILE and "-o writ-platform -g writ-platform -m 0700 /data" in DOCKERFILE


def test_the_database_asks_for_a_password():
    about = services("compose.stack.yaml")
    assert "POSTGRES_HOST_AUTH_METHOD" not in about["postgres"]["environment"]
    assert about["postgres"]["environment"]["POSTGRES_PASSWORD"].startswith("${POSTGRES_PASSWORD:?"), "without one, compose names what is missing"
    for service in ("keys", "platform"):
        assert about[service]["environment"]["PGPASSWORD"] == "${POSTGRES_PASSWORD}"


def test_the_volumes_have_a_name_of_their_own():
    """Without one they are called after the folder, as those of any other project that has a compose file in `ops`."""
    assert yaml.safe_load((TOP / "ops" / "compose.yaml").read_text())["name"] == "writ"


def test_the_database_is_ready_when_it_answers_by_tcp():
    """Its image makes the database with a server that listens on its socket only, and then stops it: the keys would be refused."""
    assert "-h" in services("compose.stack.yaml")["postgres"]["healthcheck"]["test"]


def test_the_image_has_what_its_programs_and_their_operator_need():
    """The system's authorities are kafka.ca_file's default; docs/guides/backup.md backs up with sqlite3."""
    installed = set(re.search(r"apt-get install (.+?) \\\n", DOCKERFILE)[1].split())
    assert {"bash", "ca-certificates", "curl", "jq", "sqlite3"} <= installed


def test_the_image_runs_as_a_number():
    """An orchestrator that refuses root (runAsNonRoot) cannot know who a name is."""
    assert re.search(r"^USER [1-9]\d*:[1-9]\d*$", DOCKERFILE, re.M)


# ---- build directories ----


@pytest.fixture
def checkout(tmp_path):
    """A project of nothing, with our way to configure."""
    top = tmp_path / "first"
    (top / "ops" / "lib").mkdir(parents=True)
    shutil.copy(TOP / "ops" / "lib" / "configure", top / "ops" / "lib")
    (top / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.25)\nproject(nothing LANGUAGES NONE)\n"
                                        'add_custom_target(say ALL COMMAND echo "of ${CMAKE_SOURCE_DIR}." VERBATIM)\n')
    shutil.copy(TOP / "CMakePresets.json", top)
    return top


def built(top):
    """Whose sources were built."""
    subprocess.run([top / "ops" / "lib" / "configure", "release"], cwd="/", check=True, capture_output=True, timeout=600)
    told = subprocess.run(["ninja", "-C", top / "build" / "release"], check=True, capture_output=True, text=True, timeout=600).stdout
    return pathlib.Path(re.search(r"^of (.+)\.$", told, re.M)[1])


@pytest.mark.parametrize("place", ["second", "with a blank"])
def test_a_checkout_that_was_copied_or_moved_builds_its_own_sources(checkout, tmp_path, place):
    """Else a copy builds the sources it was copied from, without a word, and one that was moved cannot be built."""
    assert built(checkout) == checkout
    copy = shutil.copytree(checkout, tmp_path / place)
    assert built(copy) == copy
    moved = checkout.rename(tmp_path / "moved")
    assert built(moved) == moved


def test_a_build_directory_that_is_ready_is_left_as_it_is(checkout):
    built(checkout)
    before = (checkout / "build" / "release" / "build.ninja").stat().st_mtime_ns
    built(checkout)
    assert (checkout / "build" / "release" / "build.ninja").stat().st_mtime_ns == before

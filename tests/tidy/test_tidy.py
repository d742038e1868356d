"""Structure, tested like behaviour: arrows between rooms, doors to foreign libraries, headers that
compile alone, documents that name every option, metric, error and route, calls that are banned.
"""

import concurrent.futures
import json
import os
import pathlib
import re
import subprocess

import pytest

TOP = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("WRIT_BUILD", TOP / "build" / "dev"))
WRIT = BUILD / "bin" / "writ"
ROOTS = ["src", "shards", "pipeline"]
DOORS = {  # foreign header: the room that may include it (Kafka's client has a door on each side and one for logging in)
    r"jsmn\.h": "json", r"openssl/.*": "crypto tls", r"yaml\.h": "policy", r"re2/.*": "cel", r"utf8proc\.h": "spelling", r"llhttp(/.*)?\.h": "http",
    r"sqlite3\.h": "store", r"libpq-fe\.h": "store", r"ev\.h": "loop", r"hiredis.*": "mirror", r"librdkafka/.*": "publish ingest topic statelog", r"curl/.*": "outbound",
}
BANNED = "strcpy strcat sprintf vsprintf gets strtok atoi atol atof alloca system".split()
LINES_MAX = 900


def sources(*suffixes, roots=ROOTS):
    found = []
    for root in roots:
        found += [path for path in sorted((TOP / root).rglob("*")) if path.suffix in suffixes]
    return found


def relative(path):
    return str(path.relative_to(TOP))


def rooms():
    """{room: (folder, rooms it may include)}, from CMakeLists.txt: its DEPENDS lists are the law."""
    text = (TOP / "CMakeLists.txt").read_text()
    found = {}
    for kind, name, path, rest in re.findall(r"^(room|program)\((\S+)\s+PATH (\S+)(.*)\)$", text, re.M):
        depends = re.search(r"DEPENDS ([a-z0-9_ ]+)", rest)
        room = name if kind == "room" else pathlib.Path(path).name
        found[room] = (path, set(depends[1].split()) if depends else set())
    assert {"base", "json", "engine", "platform", "cli"} <= set(found), "CMakeLists.txt was not understood"
    return found


def room_of(path, known):
    """The room that a file of the tree is in: the longest folder that holds it."""
    text = relative(path)
    holding = [(len(folder), room) for room, (folder, _) in known.items() if text.startswith(folder + "/")]
    return max(holding)[1] if holding else None


def includes(path):
    return re.findall(r'^\s*#\s*include\s+(["<])([^">]+)[">]', path.read_text(), re.M)


def strip(text):
    """C without comments, strings and character constants."""
    pattern = r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
    return re.sub(pattern, lambda match: "\n" * match[0].count("\n"), text, flags=re.S)


# ---- arrows and doors ----


def test_includes_follow_the_arrows():
    known = rooms()
    wrong = []
    for path in sources(".c", ".cc", ".h"):
        room = room_of(path, known)
        assert room, f"{relative(path)} is in no room"
        for quote, name in includes(path):
            if quote != '"':
                continue
            target = next((base / name for base in (path.parent, TOP / "src", TOP) if (base / name).is_file()), None)
            if target is None:
                wrong.append(f"{relative(path)}: {name} is nowhere")
                continue
            other = room_of(target.resolve(), known)
            if other != room and other not in known[room][1]:
                wrong.append(f"{relative(path)}: room {room} may not include {name} (room {other})")
    assert not wrong, "\n".join(wrong)


def test_the_arrows_have_no_circle():
    known, order = rooms(), []
    while len(order) < len(known):
        ready = [room for room, (_, depends) in known.items() if room not in order and depends <= set(order)]
        assert ready, f"a circle among {sorted(set(known) - set(order))}"
        order += ready


def test_a_foreign_library_is_included_by_its_door_only():
    known = rooms()
    wrong = []
    for path in sources(".c", ".cc", ".h"):
        for quote, name in includes(path):
            for pattern, room in DOORS.items():
                if quote == "<" and re.fullmatch(pattern, name) and room_of(path, known) not in room.split():
                    wrong.append(f"{relative(path)}: <{name}> belongs to room {room}")
    assert not wrong, "\n".join(wrong)


def test_a_foreign_librarys_types_are_in_no_header_of_a_room():
    public = [relative(path) for path in sources(".h")
              for quote, name in includes(path)
              if quote == "<" and any(re.fullmatch(pattern, name) for pattern in DOORS) and path.stem == path.parent.name]
    assert not public, f"a room's own header shows a foreign library: {public}"


# ---- headers ----


def compile_each(paths, text_of):
    """What the compiler has against any of these, each with the text that stands for it."""
    flags = ["-std=gnu17", "-D_GNU_SOURCE", '-DWRIT_VERSION="0"', "-Wall", "-Wextra", "-Wno-unused-function", "-Werror",
             f"-I{TOP}/src", f"-I{TOP}", f"-I{TOP}/tests", "-isystem", "/usr/share/include/llhttp", "-isystem", "/usr/share/include", "-isystem", "/usr/include/postgresql",
             "-fsyntax-only", "-x", "c", "-"]

    def compile_one(path):
        done = subprocess.run(["cc", *flags], input=text_of(path), capture_output=True, text=True)
        return None if done.returncode == 0 else f"{relative(path)}:\n{done.stderr}"

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return [fault for fault in pool.map(compile_one, paths) if fault]


def test_headers_compile_alone():
    wrong = compile_each(sources(".h", roots=[*ROOTS, "tests"]), lambda path: f'#include "{path}"\n')
    assert not wrong, "\n".join(wrong)


def test_fuzz_targets_compile():
    """Only ops/test --long builds them."""
    targets = sorted((TOP / "tests" / "fuzz").glob("*.c"))
    wrong = compile_each(targets, lambda path: path.read_text())
    assert targets and not wrong, "\n".join(wrong)


def test_headers_are_guarded_by_their_own_name():
    wrong = []
    for path in sources(".h"):
        match = re.search(r"^#ifndef (\w+)\n#define (\w+)\n", path.read_text(), re.M)
        if not match or match[1] != match[2] or path.stem.upper().replace("-", "_") not in match[1]:
            wrong.append(relative(path))
    assert not wrong, wrong


# ---- documents ----


def table(path, macro, place):
    """The strings at one place of a table of macro lines."""
    rows = re.findall(rf"^{macro}\((.*)\)\s*$", (TOP / path).read_text(), re.M)
    assert rows, f"{path} was not understood"
    return [re.findall(r'"((?:\\.|[^"\\])*)"', row)[place] for row in rows]


NAMES = {
    "config": table("src/config/options.def", "OPTION", 0),
    "metrics": table("src/metrics/metrics.def", "(?:COUNTER|GAUGE|HISTOGRAM)", 0),
    "errors": [name for name in table("src/base/err.def", "ERR", 0) if name != "ok"],
}


@pytest.mark.parametrize("path, macro, use", [
    ("src/config/options.def", "OPTION", r"(->|\.)%s\b"), ("src/metrics/metrics.def", "COUNTER|GAUGE", r"\bMETRIC_%s\b"),
    ("src/metrics/metrics.def", "HISTOGRAM", r"\bHISTOGRAM_%s\b"), ("src/base/err.def", "ERR", r"\bERR_%s\b"),
])
def test_what_a_table_declares_is_used(path, macro, use):
    """It would be documented, and an option do nothing, a metric stay 0, an error never be told."""
    code = "\n".join(strip(source.read_text()) for source in sources(".c", ".cc", ".h"))
    names = re.findall(rf"^(?:{macro})\((\w+)", (TOP / path).read_text(), re.M)
    unused = [name for name in names if not re.search(use % re.sub("_[45]XX$", "_2XX", name), code)]  # struct api counts from 2XX on
    assert names and not unused, f"{path}: {unused}"


def test_variables_that_are_no_option_are_listed_and_in_use():
    """Whoever has one in the shell that starts a program would be warned of it."""
    options = {"WRIT_" + name.replace(".", "_").upper() for name in NAMES["config"]}
    others = set(table("src/config/others.def", "OTHER", 0))

    def named(*roots):
        files = [path for root in roots for path in [TOP / root, *(TOP / root).rglob("*")] if path.is_file()]
        return set(re.findall(r"\bWRIT_[A-Z0-9_]+\b", "\n".join(path.read_text(errors="ignore") for path in files)))

    assert not others & options
    assert named("README.md", "ops", "src/cli") - options - {"WRIT_VERSION"} <= others
    assert others <= named("README.md", "ops", "src/cli", "src/base", "src/config/read.c", "tests")


REFERENCE = {**{document: f"schemas/{document}.md" for document in NAMES}, "limits": "docs/reference/limits.md"}


@pytest.mark.parametrize("document", sorted(REFERENCE))
def test_a_reference_document_is_what_the_program_prints(document):
    assert WRIT.exists(), f"{WRIT} is not built"
    printed = subprocess.run([WRIT, "docs", document], capture_output=True, text=True, check=True).stdout
    assert printed == (TOP / REFERENCE[document]).read_text(), \
        f"{REFERENCE[document]} is stale: writ docs {document} > {REFERENCE[document]}"


INTERNAL_LIMITS = set("""
    POLICY_ROW_BYTES REPLY_BYTES REDIS_HASH_ELEMENTS REDIS_FIELD_BYTES DELTA_BYTES RECORD_BYTES RECORD_HEAD_BYTES RESERVE_BYTES
    BLOCK_BYTES BLOCKS REQUEST_ARENA_BYTES SLOTS WAITS REVISIONS_KEPT BUNDLE_BYTES BUNDLE_FORMAT BUNDLE_FORMAT_PLAIN
    OIDC_REFRESH_SECONDS
""".split())  # of base/limits.h: those that no client and no operator meets by itself


def test_every_limit_is_in_the_reference_or_internal():
    """Of base/limits.h: a new bound is documented, or named here. What a row names exists."""
    rows = (TOP / "src/cli/limits.def").read_text()
    bounds = set(re.findall(r"^\s+LIMIT_(\w+) = ", (TOP / "src/base/limits.h").read_text(), re.M))
    shown = set(re.findall(r"\bLIMIT_(\w+)(?= [/,]|,)", rows))
    assert len(bounds) > 40 and bounds == (shown & bounds) | INTERNAL_LIMITS and not shown & INTERNAL_LIMITS, \
        f"in neither place: {bounds - shown - INTERNAL_LIMITS}; in both: {shown & INTERNAL_LIMITS}; gone: {INTERNAL_LIMITS - bounds}"
    codes = set(re.findall(r"\b[45]\d\d `(\w+)`", rows))
    assert len(codes) > 8 and codes <= set(NAMES["errors"]), codes - set(NAMES["errors"])
    options = set(re.findall(r"`([a-z]+(?:\.[a-z_]+)*)`", " ".join(re.findall(r', "([^"]*)"\)$', rows, re.M))))
    assert len(options) > 5 and options <= set(NAMES["config"]), options - set(NAMES["config"])


def routes_of(folder):
    """{(method, path)} of a program's route table, without what it only forwards.

    A row is written out, or by a macro: one that fixes the method, or takes it first.
    """
    found = set()
    for path in sources(".c", ".h", ".def", roots=[folder]):
        text = path.read_text().replace("\\\n", " ")
        defined = dict(re.findall(r"^#define (\w+)\(.*?\).*?\.method = (\w+)", text, re.M))
        rows = [line for line in text.splitlines() if not line.lstrip().startswith(("#define", "FORWARD(", "FORWARD_LARGE("))]
        table = "\n".join(rows)
        found |= set(re.findall(r'\.method = HTTP_(\w+),\s*\.pattern = "(/[^"]*)"', table))
        found |= set(re.findall(r'\w+\(\s*HTTP_(\w+),\s*"(/[^"]*)"', table))
        found |= set(re.findall(r'\{\s*HTTP_(\w+),\s*"(/[^"]*)"', table))
        for macro, method in defined.items():
            if method.startswith("HTTP_"):
                found |= {(method[5:], target) for target in re.findall(rf'\b{macro}\(\s*"(/[^"]*)"', table)}
    return found


def routes_of_openapi(path):
    found, target = set(), None
    inside = False
    for line in path.read_text().splitlines():
        if re.match(r"^\S", line):
            inside = line.startswith("paths:")
        elif inside and (match := re.match(r"""^  ["']?(/[^"'\s]*)["']?:""", line)):
            target = match[1]
        elif inside and target and (match := re.match(r"^    (get|post|put|delete):", line)):
            found.add((match[1].upper(), target))
    return found


@pytest.mark.parametrize("program", ["engine", "platform"])
def test_every_route_is_in_the_openapi_document_and_the_other_way_round(program):
    def shape(routes):
        return {(method, re.sub(r"\{[^}]*\}", "{}", target)) for method, target in routes}

    served = shape(routes_of(f"src/{program}"))
    assert len(served) > 5, f"the route table of src/{program} was not found"
    told = shape(routes_of_openapi(TOP / "schemas" / f"openapi.{program}.yaml"))
    assert served == told, f"only served: {sorted(served - told)}; only documented: {sorted(told - served)}"


def test_why_the_engine_cannot_keep_its_promise_is_told():
    """Each of its codes of 503: what a client that sees one may do, it finds where the route is told."""
    codes = re.findall(r'^ERR\(\w+, 503, "(\w+)"', (TOP / "src/base/err.def").read_text().split("/* Inside the programs")[0], re.M)
    told = re.search(r"^    Unavailable:\n(?: {6}.*\n)+", (TOP / "schemas/openapi.engine.yaml").read_text(), re.M)[0]
    assert codes and not [code for code in codes if f"`{code}`" not in told]


def test_the_engine_forwards_every_path_of_the_platform():
    """One address serves a client. (The platform forwards whatever is below the engine's roots.)

    Not a browser's session: its cookie is for the platform's origin.
    """
    text = (TOP / "src/engine/control/routes.c").read_text()
    forwarded = set(re.findall(r'\bFORWARD(?:_LARGE)?\(HTTP_(\w+), "(/[^"]*)"', text))
    both = {target for target in routes_of("src/platform") if not re.match("/api/v1/(?!session)", target[1])}
    assert forwarded == routes_of("src/platform") - both
    document = (TOP / "schemas/openapi.engine.yaml").read_text()
    told = re.search(r"^x-forwarded-paths:.*?^paths:", document, re.M | re.S)[0]
    rows = re.findall(r"^ {4}- ([A-Z, ]+) (/\S*)$", told, re.M)
    assert {(method, path) for methods, path in rows for method in methods.split(", ")} == forwarded


def test_the_platform_forwards_every_path_of_the_engine():
    forwards = re.findall(r'\bFORWARD(?:_ALL)?\((?:HTTP_\w+, )?"(/[^"]*)"', (TOP / "src/platform/routes.c").read_text())
    patterns = "|".join(re.sub(r"{.*?}", "[^/]+", path) for path in forwards)
    own = {path for _, path in routes_of("src/platform")}
    lost = [path for _, path in routes_of("src/engine") if path not in own and not re.fullmatch(patterns, path)]
    assert forwards and not lost, lost


def test_policies_own_functions_and_keys_are_described():
    text = (TOP / "schemas/policy.md").read_text()
    functions = (TOP / "src/cel/functions.def").read_text().split("/* of policies */")[1]
    names = re.findall(r'^FUNCTION\(\w+, "(\w+)"', functions, re.M)
    keys = re.findall(r'"(\w+)"', re.search(r"rule_keys\[\] = {(.*?)}", (TOP / "src/policy/read_rule.c").read_text(), re.S)[1])
    missing = [name for name in names if f"{name}(" not in text] + [key for key in keys if f"`{key}`" not in text]
    assert len(names) > 3 and len(keys) > 5 and not missing, missing


def test_a_stored_event_is_described_member_by_member():
    """Types of a client are made of this description: a member that is only told in prose is not in them."""
    document = pytest.importorskip("yaml").safe_load((TOP / "schemas/openapi.platform.yaml").read_text())
    event = json.loads((TOP / "schemas/event.schema.json").read_text())
    stored = document["components"]["schemas"]["StoredEvent"]
    assert set(stored["properties"]) == {*event["properties"], "id", "created_at", "source"}
    assert set(stored["required"]) <= set(stored["properties"])


def test_events_are_read_as_their_schema_says():
    """The kinds and, of members that are names, ids, hashes or parts of one, the shape."""
    members = json.loads((TOP / "schemas/event.schema.json").read_text())["properties"]
    kinds = re.search(r" kinds\[\] = {(.*?)}", (TOP / "src/event/event.c").read_text(), re.S)[1]
    written = re.findall(r'"([a-z._]+)"', kinds)
    assert [*written, *(f"external.{kind}" for kind in written)] == members["kind"]["enum"]
    told = {(name, told["$ref"].split("/")[-1].upper()) for name, told in members.items() if "$ref" in told}
    shapes = re.findall(r"\[INDEX_(\w+)\] = SHAPE_(NAME|ID|HASH|UNIT),", (TOP / "src/event/read.c").read_text())
    assert set(shapes) == {(name, shape) for name, shape in told if shape in ("NAME", "ID", "HASH", "UNIT")}


@pytest.mark.parametrize("name", sorted(path.name for path in (TOP / "schemas").glob("*.yaml")))
def test_no_map_of_a_schema_has_a_key_twice(name):
    """YAML forbids it, and what reads these documents to make a client of them refuses it."""
    yaml = pytest.importorskip("yaml")

    def keys(node):
        if isinstance(node, yaml.MappingNode):
            seen = set()
            for key, value in node.value:
                assert key.value not in seen, f"{name}:{key.start_mark.line + 1}: {key.value} is there twice"
                seen.add(key.value)
                keys(value)
        elif isinstance(node, yaml.SequenceNode):
            for one in node.value:
                keys(one)

    keys(yaml.compose((TOP / "schemas" / name).read_text()))


# ---- the code ----


def test_banned_calls_are_not_made():
    wrong = []
    for path in sources(".c", ".cc", ".h", roots=[*ROOTS, "tests"]):
        for number, line in enumerate(strip(path.read_text()).splitlines(), 1):
            for match in re.finditer(rf"(?<![\w.>])({'|'.join(BANNED)})\s*\(", line):
                wrong.append(f"{relative(path)}:{number}: {match[1]}")
    assert not wrong, "\n".join(wrong)


def test_every_source_says_at_its_top_what_it_is():
    """A source whose header teaches it may leave that to the header."""
    wrong = [relative(path) for path in sources(".c", ".cc", ".h")
             if (path.suffix == ".h" or not path.with_suffix(".h").exists())
             and not re.match(r"/\* [\w.-]+ - ", path.read_text())]
    assert not wrong, "no top comment `/* name - …`: " + ", ".join(wrong)


def test_no_file_is_too_long():
    wrong = {relative(path): lines for path in sources(".c", ".cc", ".h", ".py", roots=[*ROOTS, "tests", "ops"])
             if (lines := len(path.read_text().splitlines())) > LINES_MAX}
    assert not wrong, wrong


def tracked():
    """Every text file of the project, as git sees it (new ones included)."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=TOP, capture_output=True, text=True, check=True)
    for name in listed.stdout.splitlines():
        path = TOP / name
        if path.is_file() and "corpus" not in path.parts:
            data = path.read_bytes()
            if b"\0" not in data:
                yield name, data.decode(errors="replace")


def test_no_file_names_a_machine_or_says_that_it_is_unfinished():
    # Written so that this file does not match itself.
    places = re.compile(r"(?<![\w.}])/(work|root|home)" + r"/[a-z]")
    in_documents = re.compile(r"(?<![\w.}])/(tmp|work|root|home)" + r"/[a-z]")
    unfinished = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X|HA" + r"CK)\b|\bplace" + r"holder\b")
    wrong = []
    for name, text in tracked():
        pattern = in_documents if name.endswith(".md") else places
        for number, line in enumerate(text.splitlines(), 1):
            match = pattern.search(line) or unfinished.search(line)
            if match:
                wrong.append(f"{name}:{number}: {match[0]}")
    assert not wrong, "\n".join(wrong)


def test_scripts_can_be_run_and_parse():
    scripts = [TOP / "ops" / name for name in ("setup", "run", "test", "bench", "stack", "lib/configure", "lib/first-keys")] + [TOP / ".ci" / "run"]
    for path in scripts:
        assert os.access(path, os.X_OK), f"{relative(path)} has no run bit"
        subprocess.run(["bash", "-n", path], check=True)


def test_the_image_installs_the_libraries_that_the_programs_need():
    """What the programs are linked with, by the packages that hold it, beside the second stage of ops/Dockerfile."""
    if "VERSION_CODENAME=bookworm" not in pathlib.Path("/etc/os-release").read_text():
        pytest.skip("SKIP: the image is Debian 12, this machine is not")
    installed = set(re.search(r"apt-get install (.+?) \\\n", (TOP / "ops" / "Dockerfile").read_text())[1].split())
    missing = set()
    for program in ("writ-engine", "writ-platform", "writ", "writ-hook"):
        binary = BUILD / "bin" / program
        told = subprocess.run(["readelf", "-d", binary], capture_output=True, text=True, check=True).stdout
        places = dict(re.findall(r"^\s*(\S+) => (\S+) ", subprocess.run(["ldd", binary], capture_output=True, text=True, check=True).stdout, re.M))
        for library in re.findall(r"\(NEEDED\).*\[(.+)\]", told):
            if library.startswith(("libc.", "libm.", "libgcc_s.", "libasan.", "libubsan.", "libtsan.")):
                continue  # in every image, or in no release
            owner = subprocess.run(["dpkg", "-S", pathlib.Path(places[library]).resolve()], capture_output=True, text=True, check=True).stdout
            if owner.split(":")[0] not in installed:
                missing.add(f"{program} needs {library}, which is in {owner.split(':')[0]}")
    assert not missing, "\n".join(sorted(missing))


def test_no_error_can_be_overlooked():
    """The type is nodiscard, so the compiler refuses a call whose error is not looked at; `(void)` says that it is not wanted."""
    assert re.search(r"^enum \[\[nodiscard\]\] err ?\{", (TOP / "src/base/err.h").read_text(), re.M)
    for path in [*TOP.glob("cmake/*.cmake"), TOP / "CMakeLists.txt", TOP / "CMakePresets.json"]:
        assert "-Wno-unused" not in path.read_text(), path


def test_the_engines_resources_see_operations_and_not_the_whole_reactor():
    whole = [path.name for path in sources(".c", ".h", roots=["src/engine/resources"]) if '#include "engine/engine.h"' in path.read_text()]
    assert not whole, f"{whole} include engine/engine.h: what they need of the reactor is in engine/runtime/reactor_view.h"

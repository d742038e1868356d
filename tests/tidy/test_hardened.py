"""What is built is hardened: read back from the programs' own files, since a flag that is misspelt or lost on the way to
the linker leaves no other trace. `WRIT_BUILD` is the build that is looked at."""

import os
import pathlib
import platform
import re
import shutil
import subprocess

import pytest

TOP = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("WRIT_BUILD", TOP / "build" / "dev"))
PROGRAMS = ["writ-engine", "writ-platform", "writ", "writ-hook"]

pytestmark = pytest.mark.skipif(shutil.which("readelf") is None, reason="binutils is not installed")


def cache(name):
    found = re.search(rf"^{name}:[A-Z]+=(.*)$", (BUILD / "CMakeCache.txt").read_text(), re.M)
    return found[1] if found else ""


def read(program, *arguments, tool="readelf"):
    path = BUILD / "bin" / program
    assert path.exists(), f"{path} is not built"
    return subprocess.run([tool, *arguments, path], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_is_position_independent_and_its_linkage_read_only(program):
    headers, dynamic = read(program, "-hlW"), read(program, "-dW")
    assert re.search(r"Type:\s+DYN", headers) and "PIE" in dynamic
    assert "GNU_RELRO" in headers
    assert re.search(r"\(FLAGS\).*BIND_NOW|\(FLAGS_1\).*NOW", dynamic)
    assert re.search(r"GNU_STACK\s.*\sRW\s", headers), "its stack can be executed"
    assert not re.search(r"LOAD\s.*\sRWE\s", headers)
    assert "(TEXTREL)" not in dynamic


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_keeps_canaries_and_checks_what_libc_writes(program):
    symbols = read(program, "--dyn-syms", "-W")
    assert "__stack_chk_fail" in symbols
    if cache("WRIT_SANITIZE") or cache("CMAKE_BUILD_TYPE") not in ("Release", "RelWithDebInfo", "MinSizeRel"):
        return  # a sanitizer checks more than libc would; without an optimiser libc checks nothing
    checked = set(re.findall(r"\b__(\w+)_chk\b", symbols))
    assert {"memcpy", "snprintf"} & checked or len(checked) >= 3, f"_FORTIFY_SOURCE left no trace: {sorted(checked)}"


@pytest.mark.skipif(platform.machine() != "x86_64", reason="CET is x86's")
@pytest.mark.skipif(shutil.which("objdump") is None, reason="binutils is not installed")
@pytest.mark.parametrize("program", PROGRAMS)
def test_an_indirect_jump_lands_where_one_is_meant_to(program):
    """The mark is looked for in the code: the note in the file is only there where the C library's own pieces have it."""
    compiler = cache("CMAKE_C_COMPILER")
    known = subprocess.run([compiler, "-fcf-protection=full", "-Werror", "-c", "-x", "c", "-", "-o", os.devnull], input=b"int x;",
                           capture_output=True)
    if known.returncode != 0:
        pytest.skip(f"{compiler} knows no -fcf-protection")
    code = read(program, "-d", "--no-show-raw-insn", "--disassemble=main", tool="objdump")
    first = re.search(r"<main>:\n\s+[0-9a-f]+:\s+(\w+)", code)
    assert first and first[1] == "endbr64", code[:400]


def test_every_object_is_compiled_with_what_the_compiler_knows():
    """Of the whole build: a room that does not pass through writ_target() would go without."""
    commands = (BUILD / "compile_commands.json").read_text()
    flags = ["-fstack-protector-strong"]
    for flag in ("-fstack-clash-protection", "-fcf-protection=full"):
        if cache("writ_has" + re.sub(r"[^A-Za-z0-9]", "_", flag)) == "1":
            flags.append(flag)
    lines = [line for line in commands.splitlines() if '"command":' in line]
    assert len(lines) > 300
    for flag in flags:
        without = [line for line in lines if flag not in line]
        assert not without, f"{flag} is not used here: {without[0][:300]}"

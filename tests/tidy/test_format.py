"""C is laid out by clang-format 14 (.clang-format), so that nobody has to argue about it: `clang-format-14 -i FILE`."""

import pathlib
import shutil
import subprocess

import pytest

TOP = pathlib.Path(__file__).resolve().parents[2]


@pytest.mark.skipif(shutil.which("clang-format-14") is None, reason="clang-format-14 is not installed")
def test_every_file_is_as_clang_format_lays_it_out():
    files = [path for root in ("src", "shards", "pipeline", "tests") for path in sorted((TOP / root).rglob("*.[ch]"))]
    done = subprocess.run(["clang-format-14", "--dry-run", "-Werror", "--ferror-limit=1", *files], capture_output=True, text=True)
    assert len(files) > 600 and done.returncode == 0, done.stderr

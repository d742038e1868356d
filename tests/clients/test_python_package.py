"""The distribution of clients/python: the same bytes wherever it is built, and a first decision in a fresh environment."""

import ast
import os
import pathlib
import re
import shutil
import subprocess
import zipfile

import pytest

TOP = pathlib.Path(__file__).resolve().parents[2]
CLIENT = TOP / "clients" / "python"
PYTHON = TOP / "build" / "clients" / "python" / "bin" / "python"
EPOCH = "1700000000"  # the time that the files of a wheel get

needs_packages = pytest.mark.skipif(not (PYTHON.parents[1] / "pins").exists(), reason="SKIP: build/clients/python is missing; run ops/setup test")


def wheel(folder):
    """Builds the wheel from a copy of the checkout, with other times of files."""
    copy = shutil.copytree(CLIENT, folder / "python", ignore=shutil.ignore_patterns("__pycache__"), copy_function=shutil.copyfile)
    done = subprocess.run([PYTHON, "-m", "flit_core.wheel", "--outdir", folder / "dist", copy], capture_output=True, text=True,
                          env={**os.environ, "SOURCE_DATE_EPOCH": EPOCH})
    assert done.returncode == 0, done.stderr
    (built,) = (folder / "dist").glob("*.whl")
    return built


@needs_packages
def test_a_wheel_has_the_same_bytes_wherever_it_is_built(tmp_path):
    first, second = wheel(tmp_path / "a"), wheel(tmp_path / "elsewhere")
    assert first.read_bytes() == second.read_bytes() and first.name == second.name
    packed = {name for name in zipfile.ZipFile(first).namelist() if ".dist-info/" not in name}
    assert packed == {f"writ_client/{path.name}" for path in (CLIENT / "writ_client").iterdir() if path.is_file()}
    assert "writ_client/py.typed" in packed


def test_the_name_of_the_distribution_is_set_in_one_place():
    name = re.search(r'^name = "(.*)"$', (CLIENT / "pyproject.toml").read_text(), re.M)[1]
    pages = [TOP / "docs" / "guides" / "agent-python.md", *(path for path in CLIENT.rglob("*") if path.suffix in (".md", ".py", ".toml", ".txt", ".yaml"))]
    places = [str(path) for path in pages if re.search(rf"\b{name}\b(?!-)", path.read_text()) and path.name != "pyproject.toml"]
    assert places == []


def test_the_library_is_written_in_python_3_9():
    """Type aliases and matches of later versions would fail only where such a Python runs it."""
    for path in (CLIENT / "writ_client").glob("*.py"):
        text = path.read_text()
        ast.parse(text, feature_version=(3, 9))
        assert "from __future__ import annotations" in text or path.name == "__init__.py", path.name

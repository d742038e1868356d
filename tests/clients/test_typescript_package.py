"""The package of clients/typescript: what is installed from the checkout, and the tarball."""

import hashlib
import json
import os
import shutil
import subprocess

import pytest

import node

COMPILER = node.TOP / "build" / "clients" / "typescript"

pytestmark = pytest.mark.skipif(node.version() < 20 or shutil.which("npm") is None, reason="SKIP: the package needs Node.js 20 or newer, and npm")


def run(*command, cwd):
    done = subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True, timeout=300,
                          env={**os.environ, "npm_config_offline": "true", "npm_config_update_notifier": "false", "npm_config_loglevel": "error"})
    assert done.returncode == 0, f"{command}: {done.stdout[-4000:]}{done.stderr[-4000:]}"
    return done.stdout


def tree(folder):
    return {path.name: path.read_text() for path in folder.iterdir()}


@pytest.mark.skipif(not (COMPILER / "pins").exists(), reason="SKIP: build/clients/typescript is missing; run ops/setup test")
def test_dist_is_what_the_compiler_makes_of_src(tmp_path):
    """After a change of src: npm ci --ignore-scripts && npm run build, in clients/typescript."""
    shutil.copytree(node.CLIENT / "src", tmp_path / "src")
    for name in ("package.json", "tsconfig.json"):
        shutil.copy(node.CLIENT / name, tmp_path)
    (tmp_path / "node_modules").symlink_to(COMPILER / "node_modules")
    run("node_modules/.bin/tsc", "-p", ".", cwd=tmp_path)
    made, kept = tree(tmp_path / "dist"), tree(node.CLIENT / "dist")
    assert sorted(made) == sorted(kept)
    assert [name for name in made if made[name] != kept[name]] == []


def test_the_package_depends_on_nothing_and_runs_no_script():
    package = json.loads((node.CLIENT / "package.json").read_text())
    assert not {"dependencies", "peerDependencies", "optionalDependencies"} & set(package)
    assert list(package["scripts"]) == ["build"]
    for target in package["exports"].values():
        assert (node.CLIENT / target).exists(), target
    assert "resolved" not in (node.CLIENT / "package-lock.json").read_text()


def test_the_tarball_is_the_same_each_time(tmp_path):
    """From copies with other times and another folder."""
    digests = set()
    for number in range(2):
        folder = tmp_path / f"copy-{number}"
        shutil.copytree(node.CLIENT, folder, ignore=shutil.ignore_patterns("node_modules"))
        for path in folder.rglob("*"):
            os.utime(path, (1_600_000_000 + number, 1_600_000_000 + number))
        packed = json.loads(run("npm", "pack", "--json", cwd=folder))
        file = (packed[0] if isinstance(packed, list) else next(iter(packed.values())))["filename"]
        digests.add(hashlib.sha256((folder / file).read_bytes()).hexdigest())
        names = subprocess.run(["tar", "tzf", folder / file], capture_output=True, text=True, check=True).stdout.split()
        assert "package/dist/index.js" in names and "package/dist/index.d.ts" in names
        assert all(name.startswith(("package/dist/", "package/src/")) or name in ("package/package.json", "package/README.md") for name in names), names
    assert len(digests) == 1


FIRST = """
import { Client, NoDecision } from "writ-client";
import { TestEngine } from "writ-client/testing";

const engine = await TestEngine.start({ read_file: "allow" });
const writ = engine.client();
const read = writ.gate("read_file", ({ path }) => `read ${path}`);
console.log(await read({ path: "a" }));
const away = new Client({ url: "http://127.0.0.1:1", key: "k", deadlineMs: 100 });
await away.decide("read_file", {}).catch((error) => console.log(error instanceof NoDecision && error.outage));
process.exit(0);
"""


def test_a_fresh_project_installs_it_from_the_checkout_and_gets_a_decision(tmp_path):
    run("npm", "init", "-y", cwd=tmp_path)
    run("npm", "install", node.CLIENT, cwd=tmp_path)
    (tmp_path / "first.mjs").write_text(FIRST)
    assert run("node", "first.mjs", cwd=tmp_path).split("\n") == ["read a", "true", ""]

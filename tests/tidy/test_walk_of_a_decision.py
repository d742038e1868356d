"""How far a reader has to go through engine/ for one decision that a limit counts and allows: the figures are
printed (pytest -s, and in the summary of a failure), and may not become worse."""

import itertools
import os
import pathlib
import re
import subprocess

from test_tidy import BUILD

FILES_MOST, CHANGES_MOST = 9, 23


def test_the_walk_of_one_limited_allow(capsys):
    program = BUILD / "bin" / "engine_walk"
    addresses = subprocess.run([program], capture_output=True, text=True, check=True).stdout.split()
    named = subprocess.run(["addr2line", "-f", "-e", program, *addresses], capture_output=True, text=True, check=True).stdout.splitlines()
    walk = [(function, pathlib.Path(re.sub(r":.*", "", place)).name) for function, place in zip(named[::2], named[1::2])]
    walk = [(function, file) for function, file in walk if not function.endswith("_check")]  # assertions
    functions = [function for function, _ in walk]
    # from the route's handler to the reply: what the turn does before and after is the same for every request
    walk = walk[functions.index("authorize_handle"):functions.index("operation_reply") + 1]
    files = [file for file, _ in itertools.groupby(file for _, file in walk)]
    with capsys.disabled():
        print(f"\nwalk of one limited allow in engine/: {len(set(files))} files, {len(files) - 1} changes of file, {len(walk)} functions")
        if os.environ.get("WRIT_WALK"):
            print("\n".join(f"{file:20} {function}" for function, file in walk))
    assert len(set(files)) <= FILES_MOST and len(files) - 1 <= CHANGES_MOST, files

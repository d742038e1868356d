"""A library of the tests that is loaded into a program before its own."""

import atexit
import functools
import pathlib
import shutil
import tempfile


@functools.cache
def preload(library):
    """What LD_PRELOAD says for it, wherever the project lies: it parts paths at blanks and colons, and goes on without one that is not there."""
    assert library.exists(), library
    place = pathlib.Path(tempfile.mkdtemp(prefix="writ-preload-"))
    atexit.register(shutil.rmtree, place)
    link = place / library.name
    link.symlink_to(library.resolve())
    return str(link)

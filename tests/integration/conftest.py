"""What the tests with real servers share: one broker, one PostgreSQL, started when first needed."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))

from fleet import Fleet, Postgres, Redis  # noqa: E402
from kafka_rig import BUILD, Broker  # noqa: E402


@pytest.fixture(scope="session")
def broker():
    for name in ("bin/writ-engine", "bin/writ-platform", "bin/writ", "tests/kafka_driver"):
        assert (BUILD / name).exists(), f"{name} is not built in {BUILD}"
    one = Broker()
    why = one.up()
    if why:
        one.close()
        pytest.skip(f"SKIP: {why}")
    yield one
    one.close()


@pytest.fixture(scope="session")
def postgres():
    one = Postgres()
    why = one.up()
    if why:
        one.close()
        pytest.skip(f"SKIP: {why}")
    yield one
    one.close()


@pytest.fixture
def redis(tmp_path):
    server = Redis(tmp_path / "r").start()
    yield server
    server.end()


@pytest.fixture
def fleet(tmp_path):
    """Makes fleets of a test's own; gone at its end."""
    made = []

    def make(start=True, **options):
        folder = tmp_path / f"f{len(made)}"
        folder.mkdir()
        made.append(Fleet(folder, **options))
        return made[-1].start() if start else made[-1]

    yield make
    for one in made:
        one.close()

"""Data of earlier programs under these: nothing is lost, and nothing has become looser (earlier.py)."""

import pathlib
import shutil

import pytest

from earlier import POLICY, Earlier

FIXTURES = sorted(path for path in (pathlib.Path(__file__).resolve().parents[1] / "fixtures").iterdir() if path.is_dir())


@pytest.fixture(params=FIXTURES, ids=lambda path: path.name)
def commit(request):
    return request.param


@pytest.fixture
def opened(tmp_path):
    made = []

    def make(*arguments, **options):
        made.append(Earlier(*arguments, tmp_path, **options))
        return made[-1]

    yield make
    for one in made:
        one.stack.close()


def test_a_data_directory_goes_on_where_it_was(opened, commit):
    earlier = opened(commit / "sqlite").start()
    earlier.check()
    earlier.check_history()
    earlier.check_suspensions()
    earlier.stack.wait_published()
    earlier.stack.engine.stop()
    earlier.stack.engine.start()  # from a snapshot of this program
    earlier.check_again()
    earlier.stack.engine.stop()
    earlier.stack.platform.stop()


def test_a_data_directory_with_postgresql_and_redis_goes_on_where_it_was(opened, commit, postgres, redis):
    earlier = opened(commit / "postgres", postgres=postgres, redis=redis).start()
    earlier.check()
    earlier.check_history()
    earlier.check_suspensions()
    earlier.wait_mirrored()
    earlier.check_again()
    earlier.stack.engine.stop()
    earlier.stack.platform.stop()


def test_a_mirror_is_adopted_and_nothing_is_looser(opened, commit, postgres, redis):
    earlier = opened(commit / "postgres", postgres=postgres, redis=redis, engine=["--node", "heir", "--adopt", "first"])
    shutil.rmtree(earlier.stack.engine_data / "engine")
    earlier.start()
    earlier.check_nothing_is_looser()
    earlier.stack.engine.stop()


def test_limits_whose_window_changes_after_the_upgrade_go_on_counting(opened, commit):
    """An earlier program's counters are named by their window, too: they are found under another one."""
    earlier = opened(commit / "sqlite").start()
    changed = POLICY.replace("window: 1h", "window: 2h").replace("window: 24h", "window: 25h")
    assert changed != POLICY
    earlier.stack.policy("base", changed)
    limited = [row for row in earlier.story["later"] if (row["body"] or {}).get("action") in ("count", "pay", "over")]
    assert {row["members"].get("rule") for row in limited} >= {"limit:counted", "limit:summed", "limit:asked"}
    for _ in range(2):
        for row in limited:
            if row["members"]["decision"] != "allow":
                reply = earlier.ask(row)
                assert reply.json["decision"] == row["members"]["decision"], (row["what"], reply)
                assert reply.json["rule"] == row["members"]["rule"], (row["what"], reply)
        earlier.stack.engine.stop()
        earlier.stack.engine.start()
    earlier.stack.engine.stop()
    earlier.stack.platform.stop()

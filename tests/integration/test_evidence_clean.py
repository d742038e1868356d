"""Whatever happens to programs and stores while no record is changed, makes no finding (evidence_runs.py).

The short form has one run of each kind. WRIT_LONG=1 runs the full counts, and keeps them in
build/long/evidence-clean.json, so that runs add up. WRIT_SEED repeats a run, of the kind in WRIT_EVIDENCE_KINDS.
"""

import collections
import os
import random
import shutil
import time

import pytest

from evidence_runs import APART, OF_A_FLEET, OFTEN, TEN_DAYS_MS, Run, matrix
from fleet import LONG, TOP, fresh_seed
from progress import Progress

PROGRESS = TOP / "build" / "long" / "evidence-clean.json"
SECONDS = int(os.environ.get("WRIT_EVIDENCE_SECONDS", "0"))  # no run begins after that; 0: until all is done
WANTED = {"sqlite": 65, "postgres": 20, "fleet": 15, "fleet on postgres": 5}
KINDS = os.environ.get("WRIT_EVIDENCE_KINDS", ",".join(WANTED)).split(",")
STEPS = 6  # of one run


def clean_run(kind, folder, request, steps, counts, always=()):
    chance = fresh_seed()
    options = {"store": "postgres", "postgres": request.getfixturevalue("postgres")} if "postgres" in kind else {}
    if "fleet" in kind:
        options["broker"] = request.getfixturevalue("broker")
        options["broker"].start()  # one that an earlier test left dead
    with Run(folder, chance, counts, **options) as run:
        names = [*run.draw(steps), *always]
        print(f"{kind}: {', '.join(names)}", flush=True)
        run.live(names)
        run.conclude()
    counts[kind] += 1


@pytest.mark.skipif(LONG, reason="SKIP: the full counts have them")
@pytest.mark.parametrize("kind, steps, always", [("sqlite", 3, ["gap accepted"]), ("postgres", 2, ["engine renamed"]), ("fleet", 2, [])])
def test_no_clean_run_makes_a_finding(kind, steps, always, request, tmp_path):
    clean_run(kind, tmp_path / "run", request, steps, collections.Counter(), always)


def two_get_old(store):
    """The oldest two records of an engine, and what came before them."""
    last = "(SELECT max(id) FROM (SELECT id FROM records WHERE node IS NOT NULL AND id >= (SELECT first_id FROM horizon) ORDER BY id LIMIT 2))"
    store.run(f"UPDATE records SET created_at = created_at - {TEN_DAYS_MS} WHERE id <= {last}; UPDATE horizon SET day = 0")


def test_each_drop_by_age_leaves_the_tree_behind_it(tmp_path):
    """Also if an earlier one has dropped the beginning of the same run, and with it the record that the checkpoint's frontier comes before."""
    with Run(tmp_path / "run", fresh_seed(), collections.Counter()) as run:
        run.store.make_old = lambda _: two_get_old(run.store)
        for _ in range(3):
            run.work(20)  # three steps at least
        for _ in range(3):
            run.retention()
        notes = [note.split("\n\n")[0].split("\n") for note, in run.store.rows("SELECT note FROM removals")]
        assert len(notes) >= 3 and all(len(lines) == 5 for lines in notes), notes


@pytest.mark.skipif(not LONG, reason="SKIP: the full counts are for ops/test --long")
def test_full_counts(request, tmp_path):
    progress, begun, number = Progress(PROGRESS, WANTED, "done"), time.monotonic(), 0
    while missing := [kind for kind in progress.missing() if kind in KINDS]:
        if number and ("WRIT_SEED" in os.environ or (SECONDS and time.monotonic() - begun > SECONDS)):
            break
        number += 1
        counts, started = collections.Counter(), time.monotonic()
        clean_run(random.choice(missing), tmp_path / f"run{number}", request, STEPS, counts)
        now = progress.add(done=counts, seconds=round(time.monotonic() - started))
        shutil.rmtree(tmp_path / f"run{number}")
        print(matrix(collections.Counter(now["done"])), flush=True)
    missing, done = progress.missing(), collections.Counter(progress.add().get("done", {}))
    print(f"{PROGRESS}: missing {missing or 'nothing'}\n{matrix(done)}")
    never = {name: done[name] for name in [*OFTEN, *APART, *OF_A_FLEET] if not done[name]}
    assert missing or not never, never

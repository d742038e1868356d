"""The checker is shown to bite: a log and a store that differ in one way each, and it finds which.

A checker that never finds anything would make every test of faults pass.
"""

import json
import sqlite3

import pytest

import checker
from checker import Clients, Row, Told, check_state, check_store

HASH = "ab" * 32


class Rows:
    def __init__(self, rows, quarantine=()):
        self.list, self.aside = list(rows), list(quarantine)

    def rows(self):
        return iter(self.list)

    def quarantine(self):
        return self.aside


def answer(n, decision="allow", **more):
    return {"answer": f"t.{n}", "request_id": f"req_{n}", "decision": decision, "output_hash": HASH, **more}


def row(seq, n, kind="decision", node="node-1", **members):
    event = {"request_id": f"req_{n}", "decision": "allow", "output_hash": HASH, **members}
    return Row(node, "0", seq, f"evt_{kind}_{n}", kind, f"t.{n}", json.dumps(event))


def log_of(tmp_path, *records):
    path = tmp_path / "told.ndjson"
    path.unlink(missing_ok=True)
    told = Told(path)
    told.tell(*records)
    told.close()
    return told


def story():
    """Five answered, one cut off, one refused; a token that was revoked, a review that was approved."""
    return [{"sent": [f"t.{n}" for n in range(1, 9)]},
            *[answer(n) for n in range(1, 6)],
            {"refused": "t.7", "status": 503, "code": "journal_full"},
            {"asks": "mint"}, {"told": "mint", "id": "tok_A", "token": "A", "max_uses": None},
            {"asks": "revoke", "id": "tok_A"}, {"told": "revoke", "id": "tok_A"},
            {"asks": "mint"}, {"told": "mint", "id": "tok_B", "token": "B", "max_uses": 3},
            {"asks": "use", "id": "tok_B"}, {"told": "use", "id": "tok_B", "result": "allow"},
            answer(8, "human_review", review_id="rev_A", follow=True),
            {"asks": "approve", "id": "rev_A"}, {"told": "approve", "id": "rev_A", "result": "done"}]


def good_rows():
    return [*[row(n, n) for n in range(1, 7)],  # the sixth was cut off after it was recorded
            row(7, 8, decision="human_review", review_id="rev_A"), row(8, 8, "review.enqueued", review_id="rev_A"),
            row(9, 90, "token.minted", token_id="tok_A"), row(10, 91, "token.revoked", token_id="tok_A"),
            row(11, 92, "token.minted", token_id="tok_B"), row(12, 93, "review.approved", review_id="rev_A"),
            row(13, 94, "engine.stopped")]


class Service:
    """What the programs would say."""

    def __init__(self, **changed):
        self.left = {"B": 2, **changed.get("left", {})}
        self.revoked = changed.get("revoked", {"A"})
        self.reviews = {"rev_A": changed.get("rev_A", "approved")}

    def use(self, token, id):
        if token in self.revoked:
            return "refused"
        if token in self.left:
            self.left[token] -= 1
            return "allow" if self.left[token] >= 0 else "spent"
        return "allow"

    def review(self, id):
        return self.reviews[id]


def judge(tmp_path, rows, records=None, service=None):
    clients = Clients(log_of(tmp_path, *(records or story())).records())
    verdict = check_store(clients, rows if isinstance(rows, Rows) else Rows(rows))
    return check_state(clients, service or Service(), verdict)


def test_what_is_as_it_was_told_holds(tmp_path):
    verdict = judge(tmp_path, good_rows())
    assert verdict.faults == {}
    assert verdict.line == "10 answered, 10 stored, 0 lost, 0 duplicate, 0 phantom"
    assert verdict.unanswered == 1 and verdict.journals == {("node-1", "0"): 13} and verdict.refused == {(503, "journal_full"): 1}
    verdict.must_hold()


def test_a_lost_record_is_found(tmp_path):
    rows = good_rows()
    del rows[2]
    verdict = judge(tmp_path, rows)
    assert verdict.lost == ["t.3"] and verdict.gaps == [("node-1", "0", 3)]
    with pytest.raises(AssertionError, match="1 lost"):
        verdict.must_hold()


def test_a_lost_end_is_found_though_no_number_is_missing(tmp_path):
    verdict = judge(tmp_path, good_rows()[:-3])
    assert verdict.lost == [("tok_B", "mint"), ("rev_A", "approve")] and verdict.gaps == []


def test_a_doubled_record_is_found(tmp_path):
    assert judge(tmp_path, [*good_rows(), row(3, 3)]).duplicate == ["evt_decision_3", ("node-1", "0", 3), "t.3"]


def test_a_request_that_was_decided_twice_is_found(tmp_path):
    again = row(14, 3)._replace(event_id="evt_another")
    assert judge(tmp_path, [*good_rows(), again]).duplicate == ["t.3"]


def test_a_place_that_was_used_twice_is_found(tmp_path):
    assert judge(tmp_path, [*good_rows(), row(13, 6)._replace(event_id="evt_other", kind="engine.started")]).duplicate == [("node-1", "0", 13)]


def test_an_invented_record_is_found(tmp_path):
    assert judge(tmp_path, [*good_rows(), row(14, 77)]).phantom == ["t.77"]
    assert judge(tmp_path, [*good_rows(), row(14, 77, "review.denied", review_id="rev_A")]).phantom == [("rev_A", "review.denied")]
    assert judge(tmp_path, [*good_rows(), row(14, 77, "token.minted", token_id="tok_C")]).phantom == [("tok_C", "token.minted")]
    assert judge(tmp_path, [*good_rows(), row(14, 77, "review.enqueued", review_id="rev_B")]).phantom == [("t.77", "review.enqueued")]


def test_a_token_whose_answer_was_cut_off_is_no_phantom(tmp_path):
    records = [*story(), {"asks": "mint"}]
    assert judge(tmp_path, [*good_rows(), row(14, 77, "token.minted", token_id="tok_C")], records).faults == {}


def test_a_review_that_was_not_queued_is_found(tmp_path):
    rows = [one for one in good_rows() if one.kind != "review.enqueued"]
    assert judge(tmp_path, rows).lost == [("t.8", "review.enqueued")]


def test_another_answer_than_the_stored_one_is_found(tmp_path):
    for change in ({"output_hash": "cd" * 32}, {"decision": "deny"}, {"request_id": "req_0"}):
        rows = good_rows()
        rows[4] = row(5, 5, **change) if "request_id" not in change else row(5, 0)._replace(trace_id="t.5", event_id="evt_5")
        assert judge(tmp_path, rows).wrong == ["t.5"]


def test_a_gap_in_the_numbers_is_found(tmp_path):
    rows = [one._replace(seq=one.seq + (one.seq >= 13)) for one in good_rows()]
    verdict = judge(tmp_path, rows)
    assert verdict.gaps == [("node-1", "0", 13)] and not verdict.lost


def test_each_journal_has_numbers_of_its_own(tmp_path):
    other = [row(n, 100 + n, "engine.started", node="node-2") for n in (1, 2)]
    assert judge(tmp_path, good_rows() + other).faults == {}
    assert judge(tmp_path, good_rows() + other[1:]).gaps == [("node-2", "0", 1)]


def test_what_is_in_quarantine_is_told(tmp_path):
    assert judge(tmp_path, Rows(good_rows(), [("clash", "node-1", 3)])).faults == {"quarantined": [("clash", "node-1", 3)]}


def test_a_refusal_that_no_fault_excuses_is_found(tmp_path):
    records = [*story(), {"refused": "t.7", "status": 500, "code": "internal"}]
    assert judge(tmp_path, good_rows(), records).faults == {"strange": [(500, "internal")]}


def test_a_revived_token_is_found(tmp_path):
    assert judge(tmp_path, good_rows(), service=Service(revoked=set())).broken == ["tok_A was revoked and is taken: allow"]


def test_a_token_that_died_is_found(tmp_path):
    assert "tok_B lost uses" in judge(tmp_path, good_rows(), service=Service(revoked={"A", "B"})).broken[0]


@pytest.mark.parametrize("left, words", [(3, "was used 4 times of 3"), (1, "lost uses")])
def test_a_use_too_many_or_too_few_is_found(tmp_path, left, words):
    assert words in judge(tmp_path, good_rows(), service=Service(left={"B": left})).broken[0]


def test_a_use_whose_answer_was_cut_off_may_be_spent_or_not(tmp_path):
    records = [*story(), {"asks": "use", "id": "tok_B"}]
    for left, right in ((2, True), (1, True), (0, False), (3, False)):
        assert (judge(tmp_path, good_rows(), records, Service(left={"B": left})).broken == []) == right, left


def test_a_review_that_is_not_what_was_answered_is_found(tmp_path):
    assert judge(tmp_path, good_rows(), service=Service(rev_A="pending")).broken == ["rev_A is pending, its client knows ['approved']"]


def test_a_change_whose_answer_was_cut_off_may_be_or_not(tmp_path):
    records = [*story(), {"asks": "redeem", "id": "rev_A"}]
    for status, right in (("approved", True), ("redeemed", True), ("pending", False), ("denied", False)):
        assert (judge(tmp_path, good_rows(), records, Service(rev_A=status)).broken == []) == right, status
    recorded = [*good_rows(), row(14, 95, "review.redeemed", review_id="rev_A")]
    assert judge(tmp_path, recorded, records).phantom == []
    assert judge(tmp_path, recorded).phantom == [("rev_A", "review.redeemed")]


def test_records_of_half_an_engine_are_compared_by_their_places(tmp_path):
    records = [{"durable": f"evt_decision_{n}", "node": "node-1", "seq": n} for n in (1, 2, 3)]
    rows = [row(n, n) for n in (1, 2, 3)]

    def of(rows):
        return check_store(Clients(log_of(tmp_path, *records).records()), Rows(rows))
    assert of(rows).line == "3 answered, 3 stored, 0 lost, 0 duplicate, 0 phantom"
    assert of(rows[:2]).lost == [("node-1", 3)]
    assert of([*rows, row(4, 4)]).phantom == [("node-1", 4)]
    assert of([*rows[:2], rows[2]._replace(event_id="evt_other")]).wrong == [("node-1", 3)]


def test_half_a_line_was_never_said(tmp_path):
    told = log_of(tmp_path, {"sent": ["t.1"]})
    with open(told.path, "ab") as file:
        file.write(b'{"answer":"t.1","reque')
    assert list(told.records()) == [{"sent": ["t.1"]}]


def test_the_log_itself_may_not_say_two_things(tmp_path):
    with pytest.raises(AssertionError, match="two answers"):
        Clients([{"sent": ["t.1"]}, answer(1), answer(1)])


def test_rows_are_read_from_a_file(tmp_path):
    with sqlite3.connect(tmp_path / "s.db") as database:
        database.execute("CREATE TABLE records (id INTEGER PRIMARY KEY, node, journal, seq, event_id, kind, trace_id, event)")
        database.execute("CREATE TABLE quarantine (reason, node, seq)")
        database.executemany("INSERT INTO records (node, journal, seq, event_id, kind, trace_id, event) VALUES (?,?,?,?,?,?,?)", good_rows())
    store = checker.SqliteStore(tmp_path / "s.db")
    assert list(store.rows()) == good_rows() and store.quarantine() == []

/* test_fleet.c - one engine's way from follower to leader and its end, entry by entry. */
#include "support.h"

/* An engine, and the log that it reads: what it sends is appended, unless a test holds it back. */
struct rig {
    struct fleet fleet;
    char bytes[64][1024];
    struct str log[64];
    uint64_t size, now_ms;
    unsigned let_in;
    bool leaves_nothing; /* what it sends is lost */
};

static const uint64_t wall_ms = 1795166400000;

static void begin(struct rig *r)
{
    *r = (struct rig){.now_ms = 5000};
    struct fleet_options o = {
        .key = entry_key_derive(STR("pepper"), 1, STR("main"), (struct fleet_id){{1}}),
        .node = STR("node-1"),
        .incarnation = incarnation_of(1),
        .reactors = 1};
    fleet_init(&r->fleet, &o, NULL, r->now_ms);
}

static void append(struct rig *r, struct str bytes)
{
    memcpy(r->bytes[r->size], bytes.bytes, bytes.size);
    r->log[r->size] = str_of(r->bytes[r->size], bytes.size);
    r->size++;
}

/* Another engine's entry. */
static void append_entry(struct rig *r, struct entry e)
{
    char bytes[1024];
    struct buf out = buf_over(bytes, sizeof bytes);
    e.format = ENTRY_FORMAT;
    assert_int_equal(entry_put(&e, &r->fleet.options.key, r->fleet.hasher, &out), ERR_OK);
    append(r, buf_view(&out));
}

static void read_all(struct rig *r)
{
    struct entry e;
    while (r->fleet.replay.next < r->size && r->fleet.role != FLEET_ENDED) {
        uint64_t next = r->fleet.replay.next;
        assert_int_equal(entry_read(r->log[next], &r->fleet.options.key, r->fleet.hasher, &e),
                         ENTRY_GOOD);
        (void)fleet_read(&r->fleet, &e, next, wall_ms + r->now_ms, r->now_ms, 100);
        if (r->fleet.replay.end != LOG_READS) return;
    }
    if (r->fleet.role != FLEET_ENDED) fleet_applied(&r->fleet, 0, r->fleet.replay.next);
}

static enum fleet_send turn(struct rig *r, uint64_t later_ms)
{
    char bytes[1024];
    struct buf out = buf_over(bytes, sizeof bytes);
    r->now_ms += later_ms;
    struct fleet_turn t = {.now_ms = r->now_ms,
                           .wall_ms = wall_ms + r->now_ms,
                           .nonce = r->now_ms,
                           .lease_ms = 30000,
                           .reaches = true,
                           .works = true,
                           .let_in = r->let_in};
    enum fleet_send what = fleet_turn(&r->fleet, &t, &out);
    if (what != FLEET_NOTHING && !r->leaves_nothing) append(r, buf_view(&out));
    return what;
}

/* Heartbeats, acknowledged and read back, until it stands. */
static unsigned heartbeats_until_it_stands(struct rig *r)
{
    unsigned count = 0;
    while (turn(r, FLEET_HEARTBEAT_MS) == FLEET_HEARTBEAT) {
        fleet_appended(&r->fleet, ENTRY_HEARTBEAT, true);
        read_all(r);
        count++;
        assert_true(count < 20);
    }
    return count;
}

static void seal(struct rig *r)
{
    char bytes[1024];
    struct buf out = buf_over(bytes, sizeof bytes);
    assert_true(fleet_may_seal(&r->fleet));
    assert_int_equal(fleet_seal(&r->fleet, STR(""), 1, wall_ms + r->now_ms, &out), ERR_OK);
    if (!r->leaves_nothing) append(r, buf_view(&out));
}

static void lead(struct rig *r)
{
    begin(r);
    heartbeats_until_it_stands(r);
    fleet_appended(&r->fleet, ENTRY_TERM, true);
    read_all(r);
    assert_int_equal(r->fleet.role, FLEET_LEADER);
}

static void six_heartbeats_of_silence_and_a_term_make_a_leader(void **state)
{
    (void)state;
    struct rig r;
    begin(&r);
    assert_int_equal(heartbeats_until_it_stands(&r), FLEET_SILENCE);
    assert_int_equal(r.fleet.role, FLEET_CANDIDATE);
    read_all(&r);
    assert_int_equal(r.fleet.role, FLEET_CANDIDATE); /* read, and not acknowledged */
    fleet_appended(&r.fleet, ENTRY_TERM, true);
    assert_int_equal(r.fleet.role, FLEET_LEADER);
    fleet_fini(&r.fleet);
}

static void a_working_leaders_heartbeat_keeps_others_from_standing(void **state)
{
    (void)state;
    struct rig r;
    begin(&r);
    append_entry(&r, term_of(1, 2));
    for (uint64_t i = 1; i < 40; i++) {
        struct entry e = heartbeat_of(2, i, 0, 30000);
        e.time_ms = wall_ms + r.now_ms;
        e.heartbeat.works = i < 20;
        append_entry(&r, e);
        read_all(&r);
        enum fleet_send what = turn(&r, FLEET_HEARTBEAT_MS);
        if (what == FLEET_TERM) {
            assert_int_equal(i, 19 + FLEET_SILENCE); /* number 19 was its last sign */
            break;
        }
        fleet_appended(&r.fleet, ENTRY_HEARTBEAT, true);
        read_all(&r);
    }
    assert_int_equal(r.fleet.role, FLEET_CANDIDATE);
    fleet_fini(&r.fleet);
}

static void a_reply_waits_for_the_acknowledgement_and_the_read_back(void **state)
{
    (void)state;
    struct rig r;
    lead(&r);
    uint64_t position = fleet_position(&r.fleet);
    seal(&r);
    assert_false(fleet_may_seal(&r.fleet)); /* one in flight */
    assert_int_equal(fleet_outcome(&r.fleet, position), FLEET_WAITS);
    fleet_appended(&r.fleet, ENTRY_RECORDS, true);
    assert_int_equal(fleet_outcome(&r.fleet, position), FLEET_WAITS);
    read_all(&r);
    assert_int_equal(fleet_outcome(&r.fleet, position), FLEET_DONE);
    assert_int_equal(fleet_outcome(&r.fleet, position + 1), FLEET_WAITS);
    fleet_fini(&r.fleet);
}

static void of_what_stood_behind_a_higher_term_nothing_happened(void **state)
{
    (void)state;
    struct rig r;
    lead(&r);
    uint64_t position = fleet_position(&r.fleet);
    append_entry(&r, term_of(2, 2));
    seal(&r);
    fleet_appended(&r.fleet, ENTRY_RECORDS, true);
    read_all(&r);
    assert_int_equal(r.fleet.end, FLEET_DEPOSED);
    assert_int_equal(fleet_outcome(&r.fleet, position), FLEET_NOTHING_HAPPENED);
    fleet_fini(&r.fleet);
}

static void an_entry_with_an_unknown_outcome_ends_the_leader(void **state)
{
    (void)state;
    struct rig r;
    lead(&r);
    uint64_t position = fleet_position(&r.fleet);
    seal(&r);
    fleet_appended(&r.fleet, ENTRY_RECORDS, false);
    assert_int_equal(r.fleet.end, FLEET_OUTCOME_UNKNOWN);
    assert_int_equal(fleet_outcome(&r.fleet, position), FLEET_UNKNOWN);
    assert_int_equal(fleet_outcome(&r.fleet, position + 1), FLEET_NOTHING_HAPPENED);
    fleet_fini(&r.fleet);
}

static void a_candidate_that_was_second_follows(void **state)
{
    (void)state;
    struct rig r;
    begin(&r);
    heartbeats_until_it_stands(&r);
    struct str own = r.log[--r.size];
    char copy[1024];
    memcpy(copy, own.bytes, own.size);
    append_entry(&r, term_of(1, 2));
    append(&r, str_of(copy, own.size));
    read_all(&r);
    assert_int_equal(r.fleet.role, FLEET_FOLLOWER);
    fleet_appended(&r.fleet, ENTRY_TERM, true);
    assert_int_equal(r.fleet.role, FLEET_FOLLOWER);
    fleet_fini(&r.fleet);
}

static void stamps_never_go_below_the_logs_time(void **state)
{
    (void)state;
    struct rig r;
    begin(&r);
    struct entry term = term_of(1, 2);
    term.time_ms = wall_ms + 900000;
    append_entry(&r, term);
    read_all(&r);
    assert_int_equal(fleet_stamp(&r.fleet, wall_ms), wall_ms + 900000);
    assert_int_equal(fleet_stamp(&r.fleet, wall_ms + 900001), wall_ms + 900001);
    assert_int_equal(fleet_stamp(&r.fleet, wall_ms), wall_ms + 900001);
    fleet_fini(&r.fleet);
}

static void an_engine_that_leaves_closes_behind_its_last_agent(void **state)
{
    (void)state;
    struct rig r;
    lead(&r);
    for (int i = 0; i < 3; i++) { /* closed, open, and open again */
        assert_int_equal(turn(&r, FLEET_HEARTBEAT_MS), FLEET_HEARTBEAT);
        fleet_appended(&r.fleet, ENTRY_HEARTBEAT, true);
        read_all(&r);
    }
    assert_true(fleet_admits(&r.fleet, r.now_ms));
    r.let_in = 1;
    fleet_leave(&r.fleet);
    assert_false(fleet_admits(&r.fleet, r.now_ms));
    assert_int_equal(turn(&r, 1), FLEET_HEARTBEAT);
    fleet_appended(&r.fleet, ENTRY_HEARTBEAT, true);
    assert_true(fleet_records(&r.fleet, r.now_ms));
    r.let_in = 0;
    read_all(&r);
    assert_false(fleet_has_left(&r.fleet)); /* the closed one that it began with does not count */
    assert_int_equal(turn(&r, FLEET_HEARTBEAT_MS), FLEET_HEARTBEAT);
    assert_false(fleet_records(&r.fleet, r.now_ms));
    assert_int_equal(r.fleet.lease.closed_number, r.fleet.lease.number);
    assert_false(fleet_has_left(&r.fleet));
    fleet_appended(&r.fleet, ENTRY_HEARTBEAT, true);
    read_all(&r);
    assert_true(fleet_has_left(&r.fleet));
    fleet_fini(&r.fleet);
}

static void a_leader_that_was_replaced_closes_when_it_leaves(void **state)
{
    (void)state;
    struct rig r;
    lead(&r);
    append_entry(&r, term_of(2, 2));
    read_all(&r);
    assert_int_equal(r.fleet.end, FLEET_DEPOSED);
    assert_int_equal(turn(&r, FLEET_HEARTBEAT_MS), FLEET_NOTHING);
    r.let_in = 1; /* which it will not record */
    fleet_leave(&r.fleet);
    assert_int_equal(turn(&r, 1), FLEET_HEARTBEAT);
    struct entry e;
    assert_int_equal(entry_read(r.log[r.size - 1], &r.fleet.options.key, r.fleet.hasher, &e),
                     ENTRY_GOOD);
    assert_true(e.heartbeat.closed && !e.heartbeat.works);
    assert_false(fleet_has_left(&r.fleet));
    fleet_appended(&r.fleet, ENTRY_HEARTBEAT, true);
    assert_true(fleet_has_left(&r.fleet));
    fleet_fini(&r.fleet);
}

static void an_engine_whose_reading_ended_admits_no_agent_and_does_not_stand(void **state)
{
    (void)state;
    struct rig r;
    begin(&r);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(turn(&r, FLEET_HEARTBEAT_MS), FLEET_HEARTBEAT);
        fleet_appended(&r.fleet, ENTRY_HEARTBEAT, true);
        read_all(&r);
    }
    assert_true(fleet_admits(&r.fleet, r.now_ms));
    append_entry(&r, records_of(7, 2, 2));
    read_all(&r);
    assert_int_equal(r.fleet.replay.end, LOG_END_NO_TERM);
    assert_false(fleet_admits(&r.fleet, r.now_ms));
    fleet_stand(&r.fleet, r.now_ms);
    assert_int_equal(turn(&r, FLEET_HEARTBEAT_MS), FLEET_HEARTBEAT);
    assert_int_equal(r.fleet.lease.closed_number, r.fleet.lease.number);
    fleet_fini(&r.fleet);
}

static void a_leader_whose_clock_is_off_ends(void **state)
{
    (void)state;
    struct rig r;
    lead(&r);
    assert_int_equal(turn(&r, FLEET_HEARTBEAT_MS), FLEET_HEARTBEAT);
    fleet_appended(&r.fleet, ENTRY_HEARTBEAT, true);
    struct entry e;
    uint64_t next = r.fleet.replay.next;
    assert_int_equal(entry_read(r.log[next], &r.fleet.options.key, r.fleet.hasher, &e), ENTRY_GOOD);
    (void)fleet_read(&r.fleet, &e, next, e.time_ms - FLEET_CLOCK_OFF_MS - 1, r.now_ms, 0);
    assert_int_equal(r.fleet.end, FLEET_CLOCK_OFF);
    fleet_fini(&r.fleet);
}

static void a_leader_that_most_peers_miss_ends_after_a_while(void **state)
{
    (void)state;
    struct rig r;
    lead(&r);
    r.leaves_nothing = true;
    for (uint64_t i = 1; r.fleet.role == FLEET_LEADER; i++) {
        struct entry e = heartbeat_of(2, i, 0, 30000);
        append_entry(&r, e);
        read_all(&r);
        (void)turn(&r, FLEET_HEARTBEAT_MS);
        if (r.fleet.heartbeat_in_flight) fleet_appended(&r.fleet, ENTRY_HEARTBEAT, true);
        assert_true(i <= 2 + FLEET_MISSED_MS / FLEET_HEARTBEAT_MS);
    }
    assert_int_equal(r.fleet.end, FLEET_UNREACHABLE);
    fleet_fini(&r.fleet);
}

static void the_slowest_reactor_decides_what_is_applied(void **state)
{
    (void)state;
    struct rig r;
    begin(&r);
    r.fleet.options.reactors = 2;
    struct entry e;
    for (int i = 0; i < 3; i++) { /* closed, and two open ones */
        assert_int_equal(turn(&r, FLEET_HEARTBEAT_MS), FLEET_HEARTBEAT);
        fleet_appended(&r.fleet, ENTRY_HEARTBEAT, true);
        read_all(&r); /* and the first reactor turns */
    }
    assert_int_equal(entry_read(r.log[2], &r.fleet.options.key, r.fleet.hasher, &e), ENTRY_GOOD);
    assert_int_equal(e.heartbeat.applied, 0);
    assert_false(fleet_admits(&r.fleet, r.now_ms));
    fleet_applied(&r.fleet, 1, 3);
    assert_true(fleet_admits(&r.fleet, r.now_ms));
    fleet_fini(&r.fleet);
}

/* Another engine has applied all up to its heartbeat, and names what it has counted there. */
static void append_claim(struct rig *r, uint64_t number, const struct entry_point *counted)
{
    struct entry e = heartbeat_of(2, number, r->size, 30000);
    e.term = counted->term;
    e.n = counted->n;
    e.previous = counted->digest;
    append_entry(r, e);
}

static void an_engine_that_counted_something_else_ends_reading(void **state)
{
    (void)state;
    struct rig r;
    lead(&r);
    struct entry_point right = r.fleet.replay.last, other = right;
    append_claim(&r, 1, &right);
    read_all(&r);
    assert_int_equal(r.fleet.replay.end, LOG_READS);
    assert_int_equal(r.fleet.peers.list[1].applied, r.size - 1);
    other.digest.bytes[7] ^= 1;
    append_claim(&r, 2, &other);
    read_all(&r);
    assert_int_equal(r.fleet.replay.end, LOG_END_CUT);
    assert_int_equal(r.fleet.end, FLEET_LOG_ENDED);
    assert_int_equal(r.fleet.peers.list[1].applied, r.size - 2);
    fleet_fini(&r.fleet);
}

static void what_is_not_remembered_is_not_taken_as_applied(void **state)
{
    (void)state;
    struct rig r;
    begin(&r); /* it has counted nothing */
    append_claim(&r, 1, &(struct entry_point){.term = 3, .n = 9});
    append_claim(&r, 2, &(struct entry_point){.term = 3, .n = 9});
    read_all(&r);
    assert_int_equal(r.fleet.replay.end, LOG_READS);
    assert_int_equal(r.fleet.peers.list[0].applied, 0);
    fleet_fini(&r.fleet);
}

static void each_heartbeat_has_a_nonce_of_its_own(void **state)
{
    (void)state;
    struct rig r;
    begin(&r);
    uint64_t nonces[3];
    for (unsigned i = 0; i < 3; i++) {
        struct entry e;
        assert_int_equal(turn(&r, FLEET_HEARTBEAT_MS), FLEET_HEARTBEAT);
        fleet_appended(&r.fleet, ENTRY_HEARTBEAT, true);
        assert_int_equal(entry_read(r.log[i], &r.fleet.options.key, r.fleet.hasher, &e),
                         ENTRY_GOOD);
        nonces[i] = e.nonce;
    }
    assert_true(nonces[0] != nonces[1] && nonces[1] != nonces[2]);
    fleet_fini(&r.fleet);
}

static void the_engine_that_a_working_leader_names_stands_at_once(void **state)
{
    (void)state;
    for (uint8_t named = 1; named <= 3; named += 2) { /* this engine, and another one */
        struct rig r;
        begin(&r);
        append_entry(&r, term_of(1, 2));
        struct entry e = heartbeat_of(2, 1, 0, 30000);
        e.time_ms = wall_ms + r.now_ms;
        e.heartbeat.works = true;
        e.heartbeat.successor = incarnation_of(named);
        append_entry(&r, e);
        read_all(&r);
        assert_int_equal(turn(&r, 1), named == 1 ? FLEET_TERM : FLEET_HEARTBEAT);
        fleet_fini(&r.fleet);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(six_heartbeats_of_silence_and_a_term_make_a_leader),
        cmocka_unit_test(a_working_leaders_heartbeat_keeps_others_from_standing),
        cmocka_unit_test(a_reply_waits_for_the_acknowledgement_and_the_read_back),
        cmocka_unit_test(of_what_stood_behind_a_higher_term_nothing_happened),
        cmocka_unit_test(an_entry_with_an_unknown_outcome_ends_the_leader),
        cmocka_unit_test(a_candidate_that_was_second_follows),
        cmocka_unit_test(stamps_never_go_below_the_logs_time),
        cmocka_unit_test(an_engine_that_leaves_closes_behind_its_last_agent),
        cmocka_unit_test(a_leader_that_was_replaced_closes_when_it_leaves),
        cmocka_unit_test(an_engine_whose_reading_ended_admits_no_agent_and_does_not_stand),
        cmocka_unit_test(a_leader_whose_clock_is_off_ends),
        cmocka_unit_test(a_leader_that_most_peers_miss_ends_after_a_while),
        cmocka_unit_test(the_slowest_reactor_decides_what_is_applied),
        cmocka_unit_test(an_engine_that_counted_something_else_ends_reading),
        cmocka_unit_test(what_is_not_remembered_is_not_taken_as_applied),
        cmocka_unit_test(each_heartbeat_has_a_nonce_of_its_own),
        cmocka_unit_test(the_engine_that_a_working_leader_names_stands_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

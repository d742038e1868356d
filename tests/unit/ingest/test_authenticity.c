/* What a stolen ingest key, or write access to the topic, can do to the trail: nothing forged is
 * stored, and the genuine record stays visible. */
#include "rig.h"

#include "base/limits.h"
#include "crypto/base64.h"
#include "evidence/checkpoint.h"
#include "evidence/merkle.h"
#include "evidence/note.h"
#include "pipeline/ingest/consumer_store.h"
#include "pipeline/ingest/intake.h"
#include "store/engine_key.h"

/* ---- batches ---- */

static struct ingest_batch batch_of(const struct rig *r, const char *node, uint64_t first_seq)
{
    return (struct ingest_batch){.node = str_from(node),
                                 .journal = STR("0"),
                                 .epoch = STR(EPOCH_1),
                                 .first_seq = first_seq,
                                 .body = buf_view(&r->body),
                                 .tenants = &rig_all,
                                 .now_ms = world_now_ms()};
}

static enum err take(struct rig *r, const struct ingest_batch *b)
{
    r->fault = (struct fault){0};
    return ingest_stream(r->store, b, &r->result, &r->fault);
}

static void assert_rows(const struct rig *r, int64_t records, int64_t quarantined, int64_t next_seq)
{
    assert_int_equal(rig_number(r, "SELECT count(*) FROM records WHERE node IS NOT NULL"), records);
    assert_int_equal(rig_number(r, "SELECT count(*) FROM quarantine"), quarantined);
    assert_int_equal(rig_number(r, "SELECT coalesce(max(next_seq), 0) FROM streams"), next_seq);
}

enum change {
    NO_MAC,
    EMPTY_MAC,
    NO_HEX,
    OTHER_MAC,
    OTHER_FIRST_DIGIT,
    OTHER_LAST_DIGIT,
    SHORT_MAC,
    HALF_MAC,
    LONG_MAC,
    OTHER_NODE,
    OTHER_JOURNAL,
    OTHER_EPOCH,
    OTHER_SEQ,
    OTHER_BYTES,
    FEWER_RECORDS,
    MORE_RECORDS,
    OTHER_FROM_SEQ,
    OTHER_NOTE,
    OTHER_FRONTIER,
    NO_CHECKPOINT,
    CHANGES
};

/* `mac`: with room for one more digit. */
static void change_mac(enum change c, struct ingest_batch *b, char mac[SHA256_HEX + 1])
{
    memcpy(mac, b->mac.bytes, SHA256_HEX);
    mac[SHA256_HEX] = '0';
    b->mac = str_of(mac, SHA256_HEX);
    if (c == NO_MAC) b->mac = (struct str){0};
    if (c == EMPTY_MAC) b->mac = STR("");
    if (c == NO_HEX) b->mac = STR("no digits");
    if (c == OTHER_MAC) memset(mac, '0', SHA256_HEX);
    if (c == OTHER_FIRST_DIGIT) mac[0] = mac[0] == '0' ? '1' : '0';
    if (c == OTHER_LAST_DIGIT) mac[SHA256_HEX - 1] = mac[SHA256_HEX - 1] == '0' ? '1' : '0';
    if (c == SHORT_MAC) b->mac.size = SHA256_HEX - 2;
    if (c == HALF_MAC) b->mac.size = SHA256_HEX / 2;
    if (c == LONG_MAC) b->mac.size = SHA256_HEX + 1;
}

static void change_batch(enum change c, struct rig *r, struct ingest_batch *b)
{
    if (c == OTHER_NODE) b->node = STR("node-2");
    if (c == OTHER_JOURNAL) b->journal = STR("1");
    if (c == OTHER_EPOCH) b->epoch = STR(EPOCH_2);
    if (c == OTHER_SEQ) b->first_seq = 4;
    if (c == OTHER_BYTES) fill_batch(r, NULL, 101, 2);
    if (c == FEWER_RECORDS) fill_batch(r, NULL, 100, 1);
    if (c == MORE_RECORDS) fill_batch(r, NULL, 100, 3);
    b->body = buf_view(&r->body);
    if (c == OTHER_FROM_SEQ) b->checkpoint.from_seq = 2;
    if (c == OTHER_NOTE) b->checkpoint.note = STR("y");
    if (c == OTHER_FRONTIER) b->checkpoint.frontier = STR("y");
    if (c == NO_CHECKPOINT) b->checkpoint = (struct run_checkpoint){0};
}

static void a_batch_whose_mac_does_not_fit_is_refused_and_changes_nothing(void **state)
{
    struct rig *r = *state;
    fill_batch(r, NOTHING_BEFORE, 1, 3);
    assert_int_equal(send(r, EPOCH_1, 1), ERR_OK);
    for (enum change i = 0; i < CHANGES; i++) {
        fill_batch(r, NULL, 100, 2);
        struct ingest_batch b = batch_of(r, "node-1", 5);
        char mac[SHA256_HEX + 1];
        b.checkpoint = (struct run_checkpoint){1, STR("x"), STR("x")};
        rig_sign(&b);
        change_mac(i, &b, mac);
        change_batch(i, r, &b);
        if (take(r, &b) != ERR_BAD_MAC) fail_msg("change %d: %s", (int)i, r->fault.text);
        assert_rows(r, 4, 0, 5);
    }
    /* a new stream without a MAC, too */
    fill_batch(r, NOTHING_BEFORE, 200, 1);
    struct ingest_batch b = batch_of(r, "invented", 1);
    assert_int_equal(take(r, &b), ERR_BAD_MAC);
    fill_batch(r, NULL, 100, 2);
    assert_int_equal(send(r, EPOCH_1, 5), ERR_OK);
    assert_rows(r, 6, 0, 7);
}

/* The MAC is checked last, while the lines are stored. */
static void forged_records_are_refused_as_such_whatever_else_is_wrong_with_them(void **state)
{
    enum { MANY = 2000 }; /* they are decoded on another thread */
    struct rig *r = *state;
    fill_batch(r, NOTHING_BEFORE, 1, 3);
    assert_int_equal(send(r, EPOCH_1, 1), ERR_OK);
    const uint64_t firsts[] = {1, 3, 5, 6};
    for (size_t i = 0; i < 4 * 3; i++) {
        const size_t what = i / 4;
        fill_batch(r, NULL, 100, what == 0 ? MANY : 3);
        if (what == 1) buf_put_literal(&r->body, "no event\n");
        struct ingest_batch b = batch_of(r, "node-1", firsts[i % 4]);
        if (what == 2) b.epoch = STR(EPOCH_2);
        rig_sign(&b);
        b.first_seq += 1; /* of what was signed */
        if (take(r, &b) != ERR_BAD_MAC) fail_msg("forgery %zu: %s", i, r->fault.text);
        assert_rows(r, 4, 0, 5);
    }
    fill_batch(r, NULL, 100, MANY);
    struct ingest_batch b = batch_of(r, "node-1", 5);
    rig_sign(&b);
    assert_int_equal(take(r, &b), ERR_OK);
    assert_rows(r, 4 + MANY, 0, 5 + MANY);
    assert_int_equal(take(r, &b), ERR_OK); /* again: all of it is stored */
    assert_result(r, 0, MANY, 0, 5 + MANY);
}

static void what_is_stored_is_a_duplicate_without_a_mac_too(void **state)
{
    struct rig *r = *state;
    fill_batch(r, NOTHING_BEFORE, 1, 3);
    assert_int_equal(send(r, EPOCH_1, 1), ERR_OK);
    struct ingest_batch b = batch_of(r, "node-1", 1);
    assert_int_equal(take(r, &b), ERR_OK);
    assert_result(r, 0, 4, 0, 5);
}

static void a_stream_of_before_goes_on_without_macs_until_the_first_one(void **state)
{
    struct rig *r = *state;
    fill_batch(r, NOTHING_BEFORE, 1, 3);
    assert_int_equal(send(r, EPOCH_1, 1), ERR_OK);
    rig_sql(r, "UPDATE streams SET authenticated = 0"); /* as the upgrade leaves it */
    fill_batch(r, NULL, 100, 2);
    struct ingest_batch b = batch_of(r, "node-1", 5);
    assert_int_equal(take(r, &b), ERR_OK);
    fill_batch(r, NULL, 200, 2);
    assert_int_equal(send(r, EPOCH_1, 7), ERR_OK);
    fill_batch(r, NULL, 300, 2);
    b = batch_of(r, "node-1", 9);
    assert_int_equal(take(r, &b), ERR_BAD_MAC);
    assert_rows(r, 8, 0, 9);
}

#define EVENT(id, kind)                                                                            \
    "{\"event_id\":\"" id "\",\"kind\":\"" kind                                                    \
    "\",\"tenant_id\":\"default\",\"timestamp\":\"2026-11-20T09:30:00.123Z\"}"

/* ---- the topic ---- */

#define TOPIC STR("t")
#define ME "aaaaaaaaaaaaaaaa"

struct scene {
    struct message_intake intake;
    uint64_t next_offset;
};

static void scene_begin(struct scene *s, struct rig *r)
{
    static struct lease lease;
    lease_init(&lease, ME);
    lease.partition_count = 1;
    for (uint64_t heartbeat = 0; heartbeat < 2; heartbeat++)
        assert_int_equal(consumer_store_heartbeat(r->store, TOPIC, &lease, heartbeat * 2 * LEASE_MS,
                                                  1, &r->fault),
                         ERR_OK);
    lease_fini(&lease);
    *s = (struct scene){
        .intake = {
            .store = r->store, .topic = TOPIC, .owner = STR(ME), .sheet = metrics_sheet_create()}};
    buf_init(&s->intake.run, 1 << 12, 32 << 20);
}

static struct message message_of(struct str value, const char *seq)
{
    return (struct message){.value = value,
                            .headers = {.node = STR("node-1"),
                                        .journal = STR("0"),
                                        .epoch = STR(EPOCH_1),
                                        .seq = str_from(seq),
                                        .schema = STR("writ.audit/1")}};
}

static void put_all_in_topic(struct scene *s, struct rig *r, const struct message *m, size_t count)
{
    const struct offset_move move = {.from = s->next_offset, .to = s->next_offset + count};
    const struct message_batch batch = {m, count, &move, 1};
    uint32_t lost;
    assert_int_equal(message_intake_store(&s->intake, &batch, world_now_ms(), &lost, &r->fault),
                     ERR_OK);
    s->next_offset += count;
}

static void put_in_topic(struct scene *s, struct rig *r, const struct message *m)
{
    put_all_in_topic(s, r, m, 1);
}

static void a_forged_message_goes_to_quarantine_and_the_genuine_record_is_stored(void **state)
{
    struct rig *r = *state;
    struct scene s;
    char mac[SHA256_HEX];
    static const char forged[] = EVENT("evt_x", "review.approved");
    uint64_t before = metrics_total(METRIC_INGEST_UNAUTHENTICATED);
    scene_begin(&s, r);
    fill_batch(r, NOTHING_BEFORE, 1, 3);
    assert_int_equal(send(r, EPOCH_1, 1), ERR_OK);
    fill_batch(r, NULL, 100, 1);
    struct message genuine = message_of(str_of(r->body.bytes, r->body.size - 1), "5");
    rig_sign_message(&genuine, mac);

    struct message m = message_of(str_from(forged), "5"); /* without a MAC */
    put_in_topic(&s, r, &m);
    m.headers.mac = genuine.headers.mac; /* with another record's */
    put_in_topic(&s, r, &m);
    m = genuine; /* its own, at another place */
    m.headers.seq = STR("6");
    put_in_topic(&s, r, &m);
    m = genuine; /* its own, in another stream */
    m.headers.node = STR("node-2");
    put_in_topic(&s, r, &m);
    m = genuine;
    m.headers.journal = STR("1");
    put_in_topic(&s, r, &m);
    m = message_of(str_from(forged), "1");
    m.headers.node = STR("invented");
    put_in_topic(&s, r, &m);
    assert_int_equal(metrics_total(METRIC_INGEST_UNAUTHENTICATED) - before, 6);
    assert_int_equal(
        rig_number(r, "SELECT count(*) FROM quarantine WHERE reason = 'unauthenticated'"), 6 - 1);
    assert_rows(r, 4, 5, 5); /* the first two are the same bytes under one identity */

    put_in_topic(&s, r, &genuine);
    assert_rows(r, 5, 5, 6);
    buf_fini(&s.intake.run);
}

/* One read brings genuine messages and forged ones that seem to go on from them. */
static void a_message_without_a_mac_is_no_part_of_a_genuine_run(void **state)
{
    struct rig *r = *state;
    struct scene s;
    char hex[2][SHA256_HEX], lines[2][512];
    struct message m[3];
    scene_begin(&s, r);
    fill_batch(r, NOTHING_BEFORE, 1, 3);
    assert_int_equal(send(r, EPOCH_1, 1), ERR_OK);
    for (unsigned i = 0; i < 2; i++) {
        struct buf line = buf_over(lines[i], sizeof lines[i]);
        put_event(&line, 100 + i, "default");
        m[i] = message_of(buf_view(&line), i == 0 ? "5" : "6");
        rig_sign_message(&m[i], hex[i]);
    }
    m[2] = message_of(m[1].value, "6");
    const struct message forged_last[] = {m[0], m[2]}, forged_first[] = {m[2], m[1]};
    put_all_in_topic(&s, r, forged_last, 2);
    assert_rows(r, 5, 1, 6);
    put_all_in_topic(&s, r, forged_first, 2);
    assert_rows(r, 6, 1, 7);
    assert_int_equal(
        rig_number(r, "SELECT count(*) FROM quarantine WHERE reason = 'unauthenticated'"), 1);
    buf_fini(&s.intake.run);
}

/* A forged position must not make an engine send its records again. */
static void a_message_without_a_mac_requests_no_replay(void **state)
{
    static const char *const nodes[] = {"node-1", "invented"};
    struct rig *r = *state;
    struct scene s;
    scene_begin(&s, r);
    fill_batch(r, NOTHING_BEFORE, 1, 3);
    assert_int_equal(send(r, EPOCH_1, 1), ERR_OK);
    for (size_t i = 0; i < 2; i++) {
        struct message m = message_of(STR(EVENT("evt_x", "review.approved")), "900");
        m.headers.node = str_from(nodes[i]);
        put_in_topic(&s, r, &m);
        assert_rows(r, 4, (int64_t)i + 1, 5);
    }
    assert_int_equal(rig_number(r, "SELECT count(*) FROM replays"), 0);
    buf_fini(&s.intake.run);
}

/* ---- posted events ---- */

static enum err post_as(struct rig *r, const char *body, bool restores)
{
    const struct ingest_post p = {.body = str_from(body),
                                  .tenants = &rig_all,
                                  .restores = restores,
                                  .now_ms = world_now_ms(),
                                  .tenant = STR("*")};
    buf_clear(&r->out);
    r->fault = (struct fault){0};
    return ingest_post(r->store, &p, &r->out, &r->result, &r->fault);
}

static void what_other_systems_post_is_external_and_what_an_admin_posts_is_restored(void **state)
{
    struct rig *r = *state;
    assert_int_equal(post_as(r, EVENT("a", "decision"), false), ERR_OK);
    assert_int_equal(post_as(r, EVENT("a", "decision"), false), ERR_OK);
    assert_int_equal(r->result.duplicates, 1);
    assert_int_equal(post_as(r, EVENT("b", "external.review.approved"), false), ERR_OK);
    assert_int_equal(post_as(r, EVENT("c", "review.approved"), true), ERR_OK);
    assert_int_equal(post_as(r, EVENT("d", "engine.started"), false), ERR_MISSING_ROLE);
    assert_int_equal(post_as(r, EVENT("e", "external.nonsense"), false), ERR_BAD_VALUE);
    assert_int_equal(post_as(r, EVENT("f", "decisi\\u006fn"), false), ERR_BAD_VALUE);
    assert_int_equal(rig_number(r, "SELECT count(*) FROM records"), 3);
    assert_int_equal(rig_number(r,
                                "SELECT count(*) FROM records WHERE kind = 'external.decision' AND "
                                "event LIKE '%\"kind\":\"external.decision\"%' AND restored = 0"),
                     1);
    assert_int_equal(
        rig_number(r, "SELECT count(*) FROM records WHERE kind = 'external.review.approved'"), 1);
    assert_int_equal(
        rig_number(r,
                   "SELECT count(*) FROM records WHERE kind = 'review.approved' AND restored = 1"),
        1);
}

/* A number out of the table, of the row with the id that put_event() makes of n. */
static int64_t number_of(const struct rig *r, const char *what, unsigned n)
{
    char sql[256];
    snprintf(sql, sizeof sql, "SELECT %s FROM records WHERE event_id = 'evt_%026u'", what, n);
    return rig_number(r, sql);
}

static void a_record_takes_the_place_of_what_was_posted_under_its_key(void **state)
{
    static const struct {
        const char *kind;
        bool restores, is_own, is_old; /* is_old: the stream has no MACs */
    } rows[] = {{"review.approved", false, false, false},
                {"review.approved", true, false, false},
                {"audit.gap", true, false, false},
                {"audit.gap", true, true, false},
                {"review.approved", true, false, true}};
    struct rig *r = *state;
    fill_batch(r, NOTHING_BEFORE, 1, 3);
    assert_int_equal(send(r, EPOCH_1, 1), ERR_OK);
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        bool yields = !rows[i].is_own && !rows[i].is_old;
        uint64_t seq = 5 + i;
        char body[256];
        snprintf(body, sizeof body,
                 "{\"event_id\":\"evt_%026u\",\"kind\":\"%s\",\"tenant_id\":\"default\","
                 "\"timestamp\":\"2026-11-20T09:30:00.123Z\"}",
                 100 + i, rows[i].kind);
        assert_int_equal(post_as(r, body, rows[i].restores), ERR_OK);
        if (rows[i].is_own) rig_sql(r, "UPDATE records SET restored = 0 WHERE node IS NULL");
        if (rows[i].is_old) rig_sql(r, "UPDATE streams SET authenticated = 0");
        fill_batch(r, NULL, 100 + i, 1);
        struct ingest_batch b = batch_of(r, "node-1", seq);
        if (!rows[i].is_old) rig_sign(&b);
        assert_int_equal(take(r, &b), ERR_OK);
        assert_result(r, yields, 0, 1, seq + 1);
        assert_int_equal(number_of(r, "count(*)", 100 + i), 1);
        assert_int_equal(number_of(r, "coalesce(seq, 0)", 100 + i), yields ? seq : 0);
    }
    assert_int_equal(rig_number(r, "SELECT count(*) FROM quarantine"), 5);
    /* the records, which are longer than what was posted */
    assert_int_equal(rig_number(r, "SELECT count(*) FROM quarantine WHERE length(event) > 180"), 2);
}

static void a_restored_row_is_the_streams_when_its_record_comes(void **state)
{
    struct rig *r = *state;
    fill_batch(r, NULL, 100, 1);
    buf_put_byte(&r->body, '\0');
    assert_int_equal(post_as(r, r->body.bytes, true), ERR_OK);
    assert_int_equal(rig_number(r, "SELECT restored FROM records"), 1);
    fill_batch(r, NOTHING_BEFORE, 1, 3);
    assert_int_equal(send(r, EPOCH_1, 1), ERR_OK);
    fill_batch(r, NULL, 100, 1);
    assert_int_equal(send(r, EPOCH_1, 5), ERR_OK);
    assert_result(r, 0, 1, 0, 6);
    assert_int_equal(rig_number(r, "SELECT restored FROM records WHERE seq = 5"), 0);
}

/* ---- checkpoints ---- */

struct signer {
    struct ed25519 *key;
    struct hasher *hasher;
    struct frontier leaves;
    struct str extensions;
    char note[2048], frontier[4096];
};

static void signer_begin(struct signer *s, uint8_t secret)
{
    uint8_t bytes[ED25519_KEY_BYTES] = {secret};
    *s = (struct signer){.key = ed25519_from_secret(bytes), .hasher = hasher_create()};
}

static void signer_end(struct signer *s)
{
    ed25519_destroy(s->key);
    hasher_destroy(s->hasher);
}

/* r->body as the records from first_seq on, with a checkpoint of this origin; without a MAC. */
static struct ingest_batch with_checkpoint(const struct rig *r, struct signer *s,
                                           const char *origin, uint64_t first_seq)
{
    struct str rest = buf_view(&r->body), line;
    char text[512], bytes[1024], frontier_bytes[FRONTIER_BYTES_MAX];
    struct buf t = buf_over(text, sizeof text), n = buf_over(bytes, sizeof bytes),
               f = buf_over(frontier_bytes, sizeof frontier_bytes),
               note = buf_over(s->note, sizeof s->note),
               frontier = buf_over(s->frontier, sizeof s->frontier);
    const struct frontier before = s->leaves;
    while (rest.size > 0 && str_split(&rest, '\n', &line)) {
        struct sha256 leaf = merkle_leaf(s->hasher, line);
        frontier_append(&s->leaves, s->hasher, &leaf);
    }
    const struct checkpoint c = {.origin = str_from(origin),
                                 .size = s->leaves.size,
                                 .root = frontier_root(&s->leaves, s->hasher),
                                 .extensions = s->extensions};
    checkpoint_put(&t, &c);
    assert_true(note_sign(&n, buf_view(&t), c.origin, s->key));
    base64_put(&note, buf_view(&n), 0);
    frontier_put(&f, &before);
    base64_put(&frontier, buf_view(&f), 0);
    struct ingest_batch b = batch_of(r, "node-1", first_seq);
    b.checkpoint = (struct run_checkpoint){first_seq, buf_view(&note), buf_view(&frontier)};
    b.now_ms = first_seq * 10000; /* each is a second of its own */
    return b;
}

static enum err send_signed(struct rig *r, struct signer *s, const char *origin, uint64_t first_seq)
{
    struct ingest_batch b = with_checkpoint(r, s, origin, first_seq);
    rig_sign(&b);
    return take(r, &b);
}

static void trust_as(struct rig *r, const struct signer *s, const char *node, const char *journal)
{
    const struct actor by = {.principal = STR("root"), .now_ms = 1};
    struct engine_key k = {.node = str_from(node), .journal = str_from(journal)};
    ed25519_public(s->key, k.public_key);
    assert_int_equal(engine_key_add(r->store, &k, &by, &r->fault), ERR_OK);
}

static void trust(struct rig *r, const struct signer *s) { trust_as(r, s, "node-1", "0"); }

static void assert_checkpoints(const struct rig *r, int64_t rows, uint64_t trusted,
                               uint64_t untrusted, uint64_t refused)
{
    assert_int_equal(rig_number(r, "SELECT count(*) FROM checkpoints"), rows);
    assert_int_equal(r->result.checkpoints_trusted, trusted);
    assert_int_equal(r->result.checkpoints_untrusted, untrusted);
    assert_int_equal(r->result.checkpoints_refused, refused);
}

static void a_checkpoint_is_stored_and_counts_if_a_registered_key_signed_it(void **state)
{
    struct rig *r = *state;
    struct signer s, other;
    signer_begin(&s, 1);
    signer_begin(&other, 2);
    fill_batch(r, NOTHING_BEFORE, 1, 3);
    assert_int_equal(send_signed(r, &s, "writ/node-1/0/1", 1), ERR_OK);
    assert_checkpoints(r, 1, 0, 1, 0);
    trust(r, &s);
    trust(r, &s); /* the same again changes nothing */
    assert_int_equal(rig_number(r, "SELECT count(*) FROM records WHERE kind = 'engine.trusted'"),
                     1);
    fill_batch(r, NULL, 100, 2);
    other.leaves = s.leaves;
    assert_int_equal(send_signed(r, &other, "writ/node-1/0/1", 5), ERR_OK);
    assert_checkpoints(r, 1, 0, 0, 1);
    assert_result(r, 2, 0, 0, 7); /* the records have their MAC */
    s.leaves = other.leaves;
    fill_batch(r, NULL, 200, 2);
    assert_int_equal(send_signed(r, &s, "writ/node-1/0/1", 7), ERR_OK);
    assert_checkpoints(r, 2, 1, 0, 0);
    assert_int_equal(rig_number(r, "SELECT from_seq FROM checkpoints WHERE end_seq = 8"), 7);
    signer_end(&s);
    signer_end(&other);
}

static void a_key_that_the_database_alone_has_registers_nothing(void **state)
{
    static const char *const changes[] = {
        "UPDATE engine_keys SET node = 'node-1' WHERE node = 'node-2'",
        "UPDATE engine_keys SET node = 'node-1', journal = '0' WHERE node = 'node-1' AND journal = '1'",
        "UPDATE engine_keys SET node = 'node-1', journal = '0' WHERE node = ''",
        "UPDATE engine_keys SET mac = '' WHERE node = 'node-1' AND journal = '0'",
        "UPDATE engine_keys SET mac = 'x' || substr(mac, 2) WHERE node = 'node-1' AND journal = '0'",
        "UPDATE engine_keys SET mac = substr(mac, 1, 63) || 'x' WHERE node = 'node-1' AND journal = '0'",
        "UPDATE engine_keys SET mac = substr(mac, 1, 63) WHERE node = 'node-1' AND journal = '0'",
        "UPDATE engine_keys SET mac = mac || '0' WHERE node = 'node-1' AND journal = '0'",
    };
    static const char *const streams[][2] = {{"node-2", "0"}, {"node-1", "1"}, {"", ""}};
    struct rig *r = *state;
    struct signer s;
    signer_begin(&s, 1);
    fill_batch(r, NOTHING_BEFORE, 1, 3);
    assert_int_equal(send_signed(r, &s, "writ/node-1/0/1", 1), ERR_OK);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        const char *const *stream = i < 3 ? streams[i] : (const char *const[]){"node-1", "0"};
        rig_sql(r, "DELETE FROM engine_keys");
        trust_as(r, &s, stream[0], stream[1]);
        rig_sql(r, changes[i]);
        fill_batch(r, NULL, 100 + (unsigned)i, 1);
        assert_int_equal(send_signed(r, &s, "writ/node-1/0/1", 5 + i), ERR_OK);
        if (r->result.checkpoints_trusted != 0) fail_msg("trusted after: %s", changes[i]);
    }
    trust(r, &s); /* the row with a wrong MAC is replaced */
    fill_batch(r, NULL, 200, 1);
    assert_int_equal(send_signed(r, &s, "writ/node-1/0/1", 5 + 8), ERR_OK);
    assert_checkpoints(r, 10, 1, 0, 0);
    signer_end(&s);
}

/* Each is right but for its origin: the tree begins with the one record of its run. */
static void a_checkpoint_of_another_stream_is_refused(void **state)
{
    static const char *const origins[] = {"writ/node-2/0/",   "writ/node-1/1/", "writ/node-10/0/",
                                          "writ/node-1/0/0",  "writ/node-1/0",  "xwrit/node-1/0/",
                                          "writ/node%2D1/0/", "writ/node-1/0/"};
    struct rig *r = *state;
    const size_t count = sizeof origins / sizeof *origins;
    fill_batch(r, NOTHING_BEFORE, 1, 3);
    assert_int_equal(send(r, EPOCH_1, 1), ERR_OK);
    for (size_t i = 0; i < count; i++) {
        struct signer s;
        char origin[64];
        bool fits = i == count - 1;
        signer_begin(&s, 1);
        snprintf(origin, sizeof origin, "%s%zu", origins[i], 5 + i);
        fill_batch(r, NULL, 100 + (unsigned)i, 1);
        assert_int_equal(send_signed(r, &s, origin, 5 + i), ERR_OK);
        if (r->result.checkpoints_refused != !fits) fail_msg("origin %s", origin);
        assert_checkpoints(r, fits, 0, fits, !fits);
        signer_end(&s);
    }
}

/* Records begin with 1. The tree would have a leaf for a record 0. */
static void a_checkpoint_of_base_0_is_refused(void **state)
{
    struct rig *r = *state;
    struct signer s;
    signer_begin(&s, 1);
    struct sha256 leaf = merkle_leaf(s.hasher, STR("record 0"));
    frontier_append(&s.leaves, s.hasher, &leaf);
    fill_batch(r, NOTHING_BEFORE, 1, 3);
    assert_int_equal(send_signed(r, &s, "writ/node-1/0/0", 1), ERR_OK);
    assert_checkpoints(r, 0, 0, 0, 1);
    signer_end(&s);
}

enum misfit {
    FROM_BEFORE,
    FROM_BEHIND,
    FROM_PAST_END,
    FRONTIER_OF_FEWER,
    FRONTIER_OF_MORE,
    FRONTIER_EMPTY,
    FRONTIER_NO_BASE64,
    NOTE_NO_BASE64,
    NOTE_UNSIGNED_TEXT,
    NOTE_WITH_EXTENSION,
    FITS,
    NOTE_OF_FEWER, /* the last one: the tree has not all records from then on */
    MISFITS
};

/* The frontier of so many leaves, whatever they are. */
static struct str frontier_of(struct signer *s, uint64_t count)
{
    char bytes[FRONTIER_BYTES_MAX];
    struct buf f = buf_over(bytes, sizeof bytes),
               digits = buf_over(s->frontier, sizeof s->frontier);
    struct sha256 leaf = merkle_leaf(s->hasher, STR("any"));
    struct frontier leaves = {0};
    while (leaves.size < count) frontier_append(&leaves, s->hasher, &leaf);
    frontier_put(&f, &leaves);
    base64_put(&digits, buf_view(&f), 0);
    return buf_view(&digits);
}

static void unfit(enum misfit m, struct rig *r, struct signer *s, struct ingest_batch *b)
{
    uint64_t seq = b->first_seq;
    struct run_checkpoint *c = &b->checkpoint;
    if (m == FROM_BEFORE) c->from_seq = seq - 1;
    if (m == FROM_BEHIND) c->from_seq = seq + 1;
    if (m == FROM_PAST_END) *c = (struct run_checkpoint){seq + 2, c->note, frontier_of(s, seq + 1)};
    if (m == FRONTIER_OF_FEWER) c->frontier = frontier_of(s, seq - 2);
    if (m == FRONTIER_OF_MORE) c->frontier = frontier_of(s, seq);
    if (m == FRONTIER_EMPTY) c->frontier = STR("");
    if (m == FRONTIER_NO_BASE64) c->frontier = STR("?");
    if (m == NOTE_NO_BASE64) c->note = STR("?");
    if (m == NOTE_UNSIGNED_TEXT) c->note = STR("dGV4dAo=");
    if (m == NOTE_OF_FEWER) fill_batch(r, NULL, 100 + m, 2);
    b->body = buf_view(&r->body);
}

static void a_checkpoint_that_does_not_fit_its_run_is_refused(void **state)
{
    struct rig *r = *state;
    struct signer s;
    signer_begin(&s, 1);
    fill_batch(r, NOTHING_BEFORE, 1, 3);
    assert_int_equal(send_signed(r, &s, "writ/node-1/0/1", 1), ERR_OK);
    for (enum misfit m = 0; m < MISFITS; m++) {
        fill_batch(r, NULL, 100 + m, 1);
        s.extensions = m == NOTE_WITH_EXTENSION ? STR("more\n") : STR("");
        struct ingest_batch b = with_checkpoint(r, &s, "writ/node-1/0/1", 5 + m);
        unfit(m, r, &s, &b);
        rig_sign(&b);
        assert_int_equal(take(r, &b), ERR_OK); /* its records have their MAC */
        if (r->result.checkpoints_refused != (m != FITS)) fail_msg("misfit %d", (int)m);
        assert_checkpoints(r, m < FITS ? 1 : 2, 0, m == FITS, m != FITS);
    }
    assert_rows(r, 4 + MISFITS + 1, 0, 5 + MISFITS + 1);
    signer_end(&s);
}

/* Anyone with the ingest key could send it. */
static void a_checkpoint_without_a_mac_is_left_out(void **state)
{
    struct rig *r = *state;
    struct signer s;
    signer_begin(&s, 1);
    fill_batch(r, NOTHING_BEFORE, 1, 3);
    assert_int_equal(send_signed(r, &s, "writ/node-1/0/1", 1), ERR_OK);
    rig_sql(r, "UPDATE streams SET authenticated = 0");
    fill_batch(r, NULL, 100, 1);
    struct ingest_batch b = with_checkpoint(r, &s, "writ/node-1/0/1", 5);
    assert_int_equal(take(r, &b), ERR_OK);
    assert_checkpoints(r, 1, 0, 0, 0);
    signer_end(&s);
}

static void a_checkpoint_within_a_second_replaces_the_one_before(void **state)
{
    struct rig *r = *state;
    struct signer s;
    signer_begin(&s, 1);
    fill_batch(r, NOTHING_BEFORE, 1, 3);
    assert_int_equal(send_signed(r, &s, "writ/node-1/0/1", 1), ERR_OK);
    rig_sql(r, "UPDATE checkpoints SET created_at = 49500"); /* the next one is of 50000 */
    fill_batch(r, NULL, 100, 2);
    assert_int_equal(send_signed(r, &s, "writ/node-1/0/1", 5), ERR_OK);
    assert_checkpoints(r, 1, 0, 1, 0);
    assert_int_equal(rig_number(r, "SELECT end_seq FROM checkpoints WHERE from_seq = 1"), 6);
    signer_end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_batch_whose_mac_does_not_fit_is_refused_and_changes_nothing),
        TEST(forged_records_are_refused_as_such_whatever_else_is_wrong_with_them),
        TEST(what_is_stored_is_a_duplicate_without_a_mac_too),
        TEST(a_stream_of_before_goes_on_without_macs_until_the_first_one),
        TEST(a_forged_message_goes_to_quarantine_and_the_genuine_record_is_stored),
        TEST(a_message_without_a_mac_is_no_part_of_a_genuine_run),
        TEST(a_message_without_a_mac_requests_no_replay),
        TEST(what_other_systems_post_is_external_and_what_an_admin_posts_is_restored),
        TEST(a_record_takes_the_place_of_what_was_posted_under_its_key),
        TEST(a_restored_row_is_the_streams_when_its_record_comes),
        TEST(a_checkpoint_is_stored_and_counts_if_a_registered_key_signed_it),
        TEST(a_key_that_the_database_alone_has_registers_nothing),
        TEST(a_checkpoint_of_another_stream_is_refused),
        TEST(a_checkpoint_of_base_0_is_refused),
        TEST(a_checkpoint_that_does_not_fit_its_run_is_refused),
        TEST(a_checkpoint_without_a_mac_is_left_out),
        TEST(a_checkpoint_within_a_second_replaces_the_one_before),
    };
    return rig_run(tests);
}

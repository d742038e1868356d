/* test_entry.c - the bytes of an entry, and what is refused. */
#include "support.h"

static struct entry_key key_of(const char *pepper, const char *name, uint8_t id)
{
    return entry_key_derive(str_from(pepper), 7, str_from(name), (struct fleet_id){{id}});
}

struct sample {
    struct entry_key key;
    struct hasher *hasher;
    char bytes[4096], records[256];
    struct buf out;
    struct entry e;
};

static void make(struct sample *s, enum entry_kind kind)
{
    struct buf records = buf_over(s->records, sizeof s->records);
    entry_put_record(&records, STR("{\"kind\":\"x\"}"), STR("delta"));
    entry_put_record(&records, STR(""), STR(""));
    s->key = key_of("pepper", "main", 9);
    s->hasher = hasher_create();
    s->out = buf_over(s->bytes, sizeof s->bytes);
    s->e = (struct entry){.kind = kind,
                          .format = ENTRY_FORMAT,
                          .term = 5,
                          .n = kind == ENTRY_RECORDS ? 1 : 0,
                          .previous = digest_of(5, 0, 1),
                          .incarnation = incarnation_of(1),
                          .node = STR("node-1"),
                          .time_ms = 1795166400123,
                          .seq = 77,
                          .nonce = 0x1122334455667788,
                          .address = STR("https://10.0.0.1:7070"),
                          .before = {.term = 4, .n = 9, .digest = digest_of(4, 9, 2)},
                          .records = buf_view(&records)};
    if (kind == ENTRY_HEARTBEAT)
        s->e.heartbeat = (struct heartbeat){.number = 3,
                                            .applied = 12,
                                            .kept = 7,
                                            .lease_ms = 30000,
                                            .version = STR("0.1.0"),
                                            .known_format = ENTRY_FORMAT,
                                            .successor = incarnation_of(2),
                                            .closed = true,
                                            .reaches = true};
    assert_int_equal(entry_put(&s->e, &s->key, s->hasher, &s->out), ERR_OK);
}

static void what_was_put_is_read_back(void **state)
{
    (void)state;
    for (int kind = ENTRY_TERM; kind <= ENTRY_HEARTBEAT; kind++) {
        struct sample s;
        struct entry e;
        char again[4096];
        struct buf out = buf_over(again, sizeof again);
        make(&s, (enum entry_kind)kind);
        assert_int_equal(entry_read(buf_view(&s.out), &s.key, s.hasher, &e), ENTRY_GOOD);
        assert_int_equal(e.kind, kind);
        assert_int_equal(e.term, 5);
        assert_true(str_equal(e.node, STR("node-1")));
        assert_int_equal(e.time_ms, s.e.time_ms);
        assert_int_equal(e.seq, 77);
        assert_memory_equal(&e.digest, &s.e.digest, sizeof e.digest);
        assert_int_equal(entry_put(&e, &s.key, s.hasher, &out), ERR_OK);
        assert_true(str_equal(buf_view(&out), buf_view(&s.out)));
        hasher_destroy(s.hasher);
    }
}

static void each_kind_has_its_own_body(void **state)
{
    (void)state;
    struct sample s;
    struct entry e;
    struct str public_bytes, private_bytes;
    make(&s, ENTRY_RECORDS);
    assert_int_equal(entry_read(buf_view(&s.out), &s.key, s.hasher, &e), ENTRY_GOOD);
    assert_true(entry_point_equal(&e.before, &s.e.before));
    assert_true(entry_next_record(&e.records, &public_bytes, &private_bytes));
    assert_true(str_equal(private_bytes, STR("delta")));
    assert_true(entry_next_record(&e.records, &public_bytes, &private_bytes));
    assert_int_equal(public_bytes.size + private_bytes.size, 0);
    assert_false(entry_next_record(&e.records, &public_bytes, &private_bytes));
    hasher_destroy(s.hasher);

    make(&s, ENTRY_HEARTBEAT);
    assert_int_equal(entry_read(buf_view(&s.out), &s.key, s.hasher, &e), ENTRY_GOOD);
    assert_int_equal(e.heartbeat.number, 3);
    assert_int_equal(e.heartbeat.applied, 12);
    assert_int_equal(e.heartbeat.kept, 7);
    assert_int_equal(e.heartbeat.lease_ms, 30000);
    assert_true(e.heartbeat.closed && e.heartbeat.reaches && !e.heartbeat.works);
    assert_true(str_equal(e.heartbeat.version, STR("0.1.0")));
    assert_true(str_equal(e.address, STR("https://10.0.0.1:7070")));
    hasher_destroy(s.hasher);
}

static void every_changed_byte_is_refused(void **state)
{
    (void)state;
    struct sample s;
    struct entry e;
    make(&s, ENTRY_RECORDS);
    for (size_t i = 0; i < s.out.size; i++) {
        s.bytes[i] ^= 1;
        assert_int_not_equal(entry_read(buf_view(&s.out), &s.key, s.hasher, &e), ENTRY_GOOD);
        s.bytes[i] ^= 1;
        assert_int_not_equal(entry_read(str_of(s.bytes, i), &s.key, s.hasher, &e), ENTRY_GOOD);
    }
    hasher_destroy(s.hasher);
}

static void another_fleet_pepper_or_format_is_named(void **state)
{
    (void)state;
    struct sample s;
    struct entry e;
    make(&s, ENTRY_TERM);
    struct entry_key other = key_of("pepper", "main", 8);
    assert_int_equal(entry_read(buf_view(&s.out), &other, s.hasher, &e), ENTRY_OTHER_FLEET);
    other = key_of("other pepper", "main", 9);
    assert_int_equal(entry_read(buf_view(&s.out), &other, s.hasher, &e), ENTRY_FORGED);
    other.fingerprint = 8;
    assert_int_equal(entry_read(buf_view(&s.out), &other, s.hasher, &e), ENTRY_OTHER_PEPPER);
    other = key_of("pepper", "another name", 9);
    assert_int_equal(entry_read(buf_view(&s.out), &other, s.hasher, &e), ENTRY_FORGED);
    s.bytes[8]++;
    assert_int_equal(entry_read(buf_view(&s.out), &s.key, s.hasher, &e), ENTRY_NEWER);
    hasher_destroy(s.hasher);
}

static void a_body_over_its_limit_is_refused_and_leaves_nothing(void **state)
{
    (void)state;
    static char records[ENTRY_BODY_MAX + 1], bytes[ENTRY_BYTES_MAX];
    struct sample s;
    make(&s, ENTRY_RECORDS);
    struct buf out = buf_over(bytes, sizeof bytes);
    s.e.n = 2;
    s.e.records = str_of(records, sizeof records);
    assert_int_equal(entry_put(&s.e, &s.key, s.hasher, &out), ERR_FULL);
    assert_int_equal(out.size, 0);
    s.e.records = str_of(records, ENTRY_BODY_MAX);
    assert_int_equal(entry_put(&s.e, &s.key, s.hasher, &out), ERR_OK);
    size_t size = out.size;
    assert_int_equal(entry_put(&s.e, &s.key, s.hasher, &out), ERR_FULL); /* no room */
    assert_int_equal(out.size, size);
    hasher_destroy(s.hasher);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_put_is_read_back),
        cmocka_unit_test(each_kind_has_its_own_body),
        cmocka_unit_test(every_changed_byte_is_refused),
        cmocka_unit_test(another_fleet_pepper_or_format_is_named),
        cmocka_unit_test(a_body_over_its_limit_is_refused_and_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

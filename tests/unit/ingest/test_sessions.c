/* Rows of sessions: found by the hash of a cookie, ended by time, by their person and by number. */
#include "rig.h"

#include "store/session_store.h"

enum { IDLE_MS = 1800000, LIFETIME_MS = 43200000 };

static const struct actor by = {.principal = STR("carol-laptop"), .key_id = STR(KEY_1)};

static const struct sign_in nothing;

static struct session session_of(unsigned number, const char *person, uint64_t created_at)
{
    struct session s = {.tenant = "acme",
                        .claims = "[]",
                        .client = "10.0.0.1",
                        .created_at = created_at,
                        .seen_at = created_at,
                        .expires_at = created_at + LIFETIME_MS};
    struct chance chance = {0};
    snprintf(s.person, sizeof s.person, "%s", person);
    s.hash.bytes[0] = (uint8_t)number;
    s.hash.bytes[1] = (uint8_t)(number >> 8);
    s.id = id_make(created_at, &chance);
    assert_true(id_read("key_", STR(KEY_1), &s.key));
    return s;
}

static struct session start(struct rig *r, unsigned number, const char *person, uint64_t at_ms)
{
    const struct session s = session_of(number, person, at_ms);
    enum err err = session_store_start(r->store, &s, &nothing, IDLE_MS, &by, &r->fault);
    if (err != ERR_OK) fail_msg("%s", r->fault.text);
    return s;
}

static bool is_there(struct rig *r, const struct session *s)
{
    struct session found;
    enum err err = session_store_find(r->store, &s->hash, &found, &r->fault);
    if (err == ERR_NOT_FOUND) return false;
    assert_int_equal(err, ERR_OK);
    assert_true(id_equal(found.id, s->id));
    return true;
}

static void a_session_is_found_as_it_was_started(void **state)
{
    struct rig *r = *state;
    rig_key(r, KEY_1, "");
    uint64_t now_ms = world_now_ms();
    const struct session s = start(r, 7, "car\xc3\xb6l", now_ms),
                         other = session_of(8, "x", now_ms);
    struct session found;
    assert_int_equal(session_store_find(r->store, &s.hash, &found, &r->fault), ERR_OK);
    assert_string_equal(found.person, s.person);
    assert_string_equal(found.tenant, "acme");
    assert_string_equal(found.client, "10.0.0.1");
    assert_true(id_equal(found.key, s.key) && found.proof == PROOF_KEY);
    assert_int_equal(found.created_at, now_ms);
    assert_int_equal(found.expires_at, now_ms + LIFETIME_MS);
    assert_false(is_there(r, &other));
    assert_int_equal(rig_number(r, "SELECT count(*) FROM records WHERE kind = 'session.started'"),
                     1);
    assert_int_equal(rig_number(r, "SELECT revision FROM store"), 1); /* engines need not know */
}

static void a_revoked_key_starts_none(void **state)
{
    struct rig *r = *state;
    rig_key(r, KEY_1, REVOKED);
    const struct session s = session_of(1, "carol", world_now_ms());
    assert_int_equal(session_store_start(r->store, &s, &nothing, IDLE_MS, &by, &r->fault),
                     ERR_CREDENTIAL_REVOKED);
    assert_false(is_there(r, &s));
}

/* ---- by an identity provider ---- */

static const struct actor person = {.principal = STR("carol"), .now_ms = 5000};

static struct session vouched(unsigned number, const char *provider, const char *subject)
{
    struct session s = session_of(number, "carol", 5000);
    s.key = (struct id){{0}};
    s.proof = PROOF_OIDC;
    s.roles = ROLE_REVIEWER | ROLE_AUDITOR;
    snprintf(s.provider, sizeof s.provider, "%s", provider);
    snprintf(s.subject, sizeof s.subject, "%s", subject);
    snprintf(s.claims, sizeof s.claims, "[[\"groups\",\"finance\"]]");
    return s;
}

static enum err start_vouched(struct rig *r, const struct session *s, const struct sign_in *from)
{
    return session_store_start(r->store, s, from, IDLE_MS, &person, &r->fault);
}

static void a_session_of_a_provider_has_its_own_rights(void **state)
{
    struct rig *r = *state;
    const struct session s = vouched(1, "corp", "u-17");
    struct session found;
    assert_int_equal(start_vouched(r, &s, &nothing), ERR_OK);
    assert_int_equal(session_store_find(r->store, &s.hash, &found, &r->fault), ERR_OK);
    assert_true(found.proof == PROOF_OIDC && found.roles == s.roles);
    assert_string_equal(found.provider, "corp");
    assert_string_equal(found.subject, "u-17");
    assert_string_equal(found.claims, s.claims);
    const char *const broken[] = {
        "roles = 0",     "roles = 1", "roles = 260", "provider = ''", "key_id = '" KEY_1 "'",
        "proof = 'key'",
    };
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        char sql[200];
        snprintf(sql, sizeof sql, "UPDATE sessions SET %s", broken[i]);
        rig_sql(r, sql);
        assert_int_equal(session_store_find(r->store, &s.hash, &found, &r->fault), ERR_CORRUPT);
        rig_sql(r, "UPDATE sessions SET roles = 4, provider = 'corp', key_id = '', proof = 'oidc'");
        assert_int_equal(session_store_find(r->store, &s.hash, &found, &r->fault), ERR_OK);
    }
}

static void a_state_is_for_one_session(void **state)
{
    struct rig *r = *state;
    struct sign_in from = {.state_ends_at = 9000};
    from.state.bytes[0] = 1;
    const struct session first = vouched(1, "corp", "u-17"), again = vouched(2, "corp", "u-17"),
                         other = vouched(3, "corp", "u-17");
    assert_int_equal(start_vouched(r, &first, &from), ERR_OK);
    assert_int_equal(start_vouched(r, &again, &from), ERR_EXISTS);
    assert_false(is_there(r, &again));
    struct sha256 ended;
    assert_int_equal(
        session_store_end(r->store, first.id, &first, STR("a"), &person, &ended, &r->fault),
        ERR_OK);
    assert_int_equal(start_vouched(r, &again, &from), ERR_EXISTS); /* after a sign-out, too */
    from.state.bytes[0] = 2;
    assert_int_equal(start_vouched(r, &other, &from), ERR_OK);
    assert_int_equal(rig_number(r, "SELECT count(*) FROM sign_ins"), 2);
}

static void a_sign_in_replaces_the_session_of_the_browser(void **state)
{
    struct rig *r = *state;
    rig_key(r, KEY_1, "");
    const struct session before = start(r, 1, "carol", 5000), other = start(r, 2, "dan", 5000),
                         s = vouched(3, "corp", "u-17");
    const struct sign_in from = {.replaces = before.hash};
    assert_int_equal(start_vouched(r, &s, &from), ERR_OK);
    assert_false(is_there(r, &before));
    assert_true(is_there(r, &other) && is_there(r, &s));
    assert_int_equal(rig_number(r, "SELECT count(*) FROM records WHERE kind = 'session.ended'"), 1);
}

static void a_name_at_another_provider_is_another_person(void **state)
{
    struct rig *r = *state;
    const struct session s = vouched(1, "corp", "u-17"),
                         others[] = {vouched(2, "other", "u-17"), vouched(3, "corp", "u-18")};
    struct sha256 ended;
    assert_int_equal(start_vouched(r, &s, &nothing), ERR_OK);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(
            session_store_end(r->store, s.id, &others[i], STR("a"), &person, &ended, &r->fault),
            ERR_NOT_FOUND);
    assert_true(is_there(r, &s));
}

static void all_sessions_of_a_person_end_at_once(void **state)
{
    struct rig *r = *state;
    rig_key(r, KEY_1, "");
    uint64_t count = 0;
    const struct session by_key = start(r, 1, "carol", 5000), dan = start(r, 2, "dan", 5000),
                         by_provider = vouched(3, "corp", "u-17");
    assert_int_equal(start_vouched(r, &by_provider, &nothing), ERR_OK);
    const struct str tenants[] = {STR("other"), STR("acme")};
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(session_store_end_person(r->store, tenants[i], STR("carol"), STR("a"), &by,
                                                  &count, &r->fault),
                         ERR_OK);
        assert_int_equal(count, i == 0 ? 0 : 2);
    }
    assert_false(is_there(r, &by_key) || is_there(r, &by_provider));
    assert_true(is_there(r, &dan));
}

static void the_last_use_never_goes_back(void **state)
{
    struct rig *r = *state;
    rig_key(r, KEY_1, "");
    const struct session s = start(r, 1, "carol", 5000);
    struct session found;
    assert_int_equal(session_store_touch(r->store, &s.hash, 9000, &r->fault), ERR_OK);
    assert_int_equal(session_store_touch(r->store, &s.hash, 7000, &r->fault), ERR_OK);
    assert_int_equal(session_store_find(r->store, &s.hash, &found, &r->fault), ERR_OK);
    assert_int_equal(found.seen_at, 9000);
    const struct session gone = session_of(2, "carol", 5000);
    assert_int_equal(session_store_touch(r->store, &gone.hash, 9000, &r->fault), ERR_OK);
    assert_false(is_there(r, &gone));
}

static void sessions_that_are_over_make_room(void **state)
{
    struct rig *r = *state;
    rig_key(r, KEY_1, "");
    const uint64_t now_ms = world_now_ms();
    const struct session idle = start(r, 1, "carol", now_ms - IDLE_MS),
                         used = start(r, 2, "carol", now_ms - IDLE_MS + 1),
                         old = start(r, 3, "carol", now_ms - LIFETIME_MS);
    assert_int_equal(session_store_touch(r->store, &old.hash, now_ms, &r->fault), ERR_OK);
    (void)start(r, 4, "carol", now_ms);
    assert_true(is_there(r, &used));
    assert_false(is_there(r, &idle) || is_there(r, &old));
    assert_true(session_is_over(&idle, IDLE_MS, now_ms) && session_is_over(&old, IDLE_MS, now_ms));
    assert_false(session_is_over(&used, IDLE_MS, now_ms));
}

static void the_oldest_of_a_person_make_room(void **state)
{
    struct rig *r = *state;
    struct session all[LIMIT_SESSIONS_OF_ONE + 2];
    rig_key(r, KEY_1, "");
    const uint64_t now_ms = world_now_ms();
    const struct session other = start(r, 900, "dan", now_ms - 1000);
    for (unsigned i = 0; i < LIMIT_SESSIONS_OF_ONE + 2; i++)
        all[i] = start(r, i, "carol", now_ms - 100 + i);
    for (unsigned i = 0; i < LIMIT_SESSIONS_OF_ONE + 2; i++)
        assert_int_equal(is_there(r, &all[i]), i >= 2);
    assert_true(is_there(r, &other));
    buf_clear(&r->out);
    assert_int_equal(
        session_store_list(r->store, &all[5], IDLE_MS, now_ms + 100, &r->out, &r->fault), ERR_OK);
    unsigned listed = 0;
    for (struct str rest = buf_view(&r->out); rest.size > 5; rest = str_skip(rest, 1))
        listed += str_starts(rest, STR("\"id\":"));
    assert_int_equal(listed, LIMIT_SESSIONS_OF_ONE);
}

static void only_its_own_person_ends_a_session(void **state)
{
    struct rig *r = *state;
    rig_key(r, KEY_1, "");
    rig_key(r, KEY_2, "");
    const uint64_t now_ms = world_now_ms();
    const struct session s = start(r, 1, "carol", now_ms), dan = start(r, 2, "dan", now_ms);
    struct session stranger = s;
    struct sha256 ended;
    assert_true(id_read("key_", STR(KEY_2), &stranger.key));
    const struct session *const others[] = {&dan, &stranger};
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(
            session_store_end(r->store, s.id, others[i], STR("10.0.0.2"), &by, &ended, &r->fault),
            ERR_NOT_FOUND);
    assert_true(is_there(r, &s));
    assert_int_equal(session_store_end(r->store, s.id, &s, STR("10.0.0.2"), &by, &ended, &r->fault),
                     ERR_OK);
    assert_memory_equal(&ended, &s.hash, sizeof ended);
    assert_false(is_there(r, &s));
    assert_true(is_there(r, &dan));
    assert_int_equal(rig_number(r, "SELECT count(*) FROM records WHERE kind = 'session.ended'"), 1);
}

static void a_row_that_is_damaged_is_no_session(void **state)
{
    struct rig *r = *state;
    rig_key(r, KEY_1, "");
    const struct session s = start(r, 1, "carol", world_now_ms());
    struct session found;
    rig_sql(r, "UPDATE sessions SET proof = 'word of honour'");
    assert_int_equal(session_store_find(r->store, &s.hash, &found, &r->fault), ERR_CORRUPT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_session_is_found_as_it_was_started),
        TEST(a_revoked_key_starts_none),
        TEST(the_last_use_never_goes_back),
        TEST(sessions_that_are_over_make_room),
        TEST(the_oldest_of_a_person_make_room),
        TEST(only_its_own_person_ends_a_session),
        TEST(a_row_that_is_damaged_is_no_session),
        TEST(a_session_of_a_provider_has_its_own_rights),
        TEST(a_state_is_for_one_session),
        TEST(a_sign_in_replaces_the_session_of_the_browser),
        TEST(all_sessions_of_a_person_end_at_once),
        TEST(a_name_at_another_provider_is_another_person),
    };
    return rig_run(tests);
}

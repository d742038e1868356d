/* Refused credentials are counted in a bounded place, however many sources there are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
/* cmocka wants the four above first. */
#include <cmocka.h>

#include "engine/engine.h"

static void note_of_key(struct engine_reactor *w, struct id id, bool has_form)
{
    char text[CREDENTIAL_TEXT + 8] = "Bearer ";
    struct http_header h = {STR("authorization"), str_of(text, CREDENTIAL_TEXT + 7)};
    struct http_exchange x = {.headers = &h, .header_count = 1};
    credential_make(id, text + 7);
    if (!has_form) text[7] = 'x';
    auth_failed_note(w, &x, ERR_UNAUTHENTICATED);
}

static struct engine_reactor *engine_reactor_with(unsigned count);
static void forget_all(struct engine_reactor *w);

/* As admission reads it, which forgives blanks. */
static void a_key_is_found_behind_blanks(void **state)
{
    (void)state;
    struct engine_reactor *w = engine_reactor_with(1);
    char text[CREDENTIAL_TEXT + 10] = "bearer   ";
    struct http_header h[2] = {{STR("authorization"), str_of(text, CREDENTIAL_TEXT + 9)}};
    struct http_exchange x = {.headers = h, .header_count = 1};
    credential_make((struct id){.bytes = {1}}, text + 9);
    auth_failed_note(w, &x, ERR_UNAUTHENTICATED);
    assert_int_equal(w->refused.count, 1);
    assert_true(w->refused.sources[0].has_key_id && !w->refused.sources[0].is_made_up);
    h[1] = h[0]; /* twice: whose it is, nobody knows */
    x.header_count = 2;
    auth_failed_note(w, &x, ERR_UNAUTHENTICATED);
    assert_int_equal(w->refused.count, 2);
    assert_false(w->refused.sources[1].has_key_id);
    forget_all(w);
}

static struct id id_of_source(unsigned source)
{
    return (struct id){.bytes = {1, (uint8_t)(source >> 8), (uint8_t)source}};
}

static void note(struct engine_reactor *w, unsigned source, bool has_form)
{
    note_of_key(w, id_of_source(source), has_form);
}

/* A reactor that knows so many keys, of the sources from 0 on. */
static struct engine_reactor *engine_reactor_with(unsigned count)
{
    struct engine_reactor *w = calloc(1, sizeof *w);
    enum { MOST = 300 };
    struct key *keys[MOST];
    assert_true(count <= MOST);
    for (unsigned i = 0; i < count; i++) {
        char text[200], id_text[ID_TEXT];
        struct arena arena;
        struct json *row;
        struct fault f;
        id_write("key_", id_of_source(i), id_text);
        snprintf(
            text, sizeof text,
            "{\"id\":\"%.*s\",\"name\":\"k%u\",\"owner\":\"o\",\"tenant\":\"t%u\",\"roles\":[\"agent\"]}",
            ID_TEXT, id_text, i, i);
        arena_init(&arena, 4096, 1 << 20);
        assert_int_equal(json_read(str_from(text), &(struct json_options){0}, &arena, &row, &f),
                         ERR_OK);
        assert_int_equal(key_read(row, &keys[i], &f), ERR_OK);
        arena_fini(&arena);
    }
    struct key_table *table;
    assert_int_equal(key_table_create(keys, count, &table), ERR_OK);
    w->api.keys = table;
    return w;
}

static void forget_all(struct engine_reactor *w)
{
    while (w->refused.count > 0) refused_drop(&w->refused);
    key_table_destroy((struct key_table *)(uintptr_t)w->api.keys);
    free(w);
}

static uint64_t counted(const struct engine_reactor *w)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < w->refused.count; i++) sum += w->refused.sources[i].count;
    return sum;
}

static void more_sources_than_places_share_the_last(void **state)
{
    (void)state;
    struct engine_reactor *w = engine_reactor_with(300);
    for (unsigned i = 0; i < 300; i++) note(w, i, true);
    assert_int_equal(w->refused.count, REFUSED_SOURCES_MAX);
    assert_int_equal(counted(w), 300);
    assert_false(w->refused.sources[REFUSED_SOURCES_MAX - 1].has_key_id);
    note(w, 7, true); /* whoever has a place keeps it */
    assert_int_equal(w->refused.sources[7].count, 2);
    assert_true(str_equal(refused_tenant(&w->refused.sources[7], w->api.keys), STR("t7")));
    forget_all(w);
}

static void ids_that_are_made_up_leave_the_places_to_keys(void **state)
{
    (void)state;
    struct engine_reactor *w = engine_reactor_with(40);
    for (int second = 0; second < 2; second++) {
        for (unsigned i = 1000; i < 1300; i++) note(w, i, true);
        assert_int_equal(w->refused.count, REFUSED_MADE_UP_MAX + 1);
        for (unsigned i = 0; i < 40; i++) note(w, i, true);
        assert_int_equal(w->refused.count, REFUSED_MADE_UP_MAX + 1 + 40);
        assert_int_equal(counted(w), 340);
        assert_int_equal(w->refused.sources[REFUSED_MADE_UP_MAX].count, 300 - REFUSED_MADE_UP_MAX);
        assert_false(w->refused.sources[REFUSED_MADE_UP_MAX].has_key_id);
        while (w->refused.count > 0) refused_drop(&w->refused);
    }
    forget_all(w);
}

static void what_has_no_key_s_form_is_one_source(void **state)
{
    (void)state;
    struct engine_reactor *w = calloc(1, sizeof *w);
    for (unsigned i = 0; i < 300; i++) note(w, i, false);
    assert_int_equal(w->refused.count, 1);
    assert_int_equal(counted(w), 300);
    forget_all(w);
}

static struct client_address client_of(const char *text)
{
    struct client_address a;
    assert_true(client_address_read(str_from(text), &a));
    return a;
}

static void assert_reason(const struct refused_source *s, const char *text)
{
    char room[REFUSED_REASON_BYTES];
    assert_true(str_equal(refused_reason(s, room), str_from(text)));
}

/* Of each source the latest address, and whether there were others; so it is told also where it was noted
 * long after the request came, or was put back. */
static void a_source_has_the_address_of_its_latest_client(void **state)
{
    (void)state;
    struct engine_reactor *w = engine_reactor_with(1);
    struct client_address one = client_of("192.0.2.1"), other = client_of("2001:db8::1");
    const struct refused_source *s = &w->refused.sources[0];
    refused_note_ended(&w->refused, id_of_source(0), &one, ERR_CREDENTIAL_REVOKED);
    refused_note_ended(&w->refused, id_of_source(0), &one, ERR_CREDENTIAL_REVOKED);
    assert_true(s->count == 2 && !s->has_several_clients && client_address_equal(&s->client, &one));
    assert_reason(s, err_sentence(ERR_CREDENTIAL_REVOKED));
    refused_note_ended(&w->refused, id_of_source(0), &other, ERR_CREDENTIAL_EXPIRED);
    assert_true(s->count == 3 && s->has_several_clients);
    assert_true(client_address_equal(&s->client, &other));
    char both[REFUSED_REASON_BYTES];
    snprintf(both, sizeof both, "%s; from several addresses, client_address is the latest one",
             err_sentence(ERR_CREDENTIAL_EXPIRED));
    assert_reason(s, both);

    struct refused_source away = *s;
    refused_drop(&w->refused);
    refused_put_back(&w->refused, &away);
    assert_true(s->count == 3 && s->has_several_clients);
    away.has_several_clients = false;
    refused_drop(&w->refused);
    refused_put_back(&w->refused, &away);
    assert_false(s->has_several_clients);
    for (int err = ERR_OK; err < ERR_COUNT; err++) { /* the longest has room */
        away = (struct refused_source){.err = (enum err)err, .has_several_clients = true};
        (void)refused_reason(&away, both);
    }
    forget_all(w);
}

static void note_token(struct engine_reactor *w, unsigned number, enum err err)
{
    char tenant[32];
    struct token_claims t = {.id = {.bytes = {2, (uint8_t)(number >> 8), (uint8_t)number}},
                             .key = {.bytes = {3}},
                             .actor = STR("bot"),
                             .scope = STR("*")};
    t.tenant = str_of(tenant, (size_t)snprintf(tenant, sizeof tenant, "tenant-%u", number));
    token_rejected_note(w, &(struct http_exchange){0}, &t, err);
}

static void a_rejected_token_is_a_source_of_its_own_and_keeps_its_names(void **state)
{
    (void)state;
    struct engine_reactor *w = calloc(1, sizeof *w);
    note_token(w, 1, ERR_CREDENTIAL_EXPIRED);
    note_token(w, 2, ERR_CREDENTIAL_EXPIRED);
    note_token(w, 1, ERR_CREDENTIAL_REVOKED);
    assert_int_equal(w->refused.count, 2);
    const struct refused_source *first = &w->refused.sources[0];
    assert_int_equal(first->count, 2);
    assert_int_equal(first->err, ERR_CREDENTIAL_REVOKED);
    assert_int_equal(first->key_id.bytes[0], 3);
    assert_true(str_equal(refused_tenant(first, NULL), STR("tenant-1")));
    assert_true(str_equal(first->token->actor, STR("bot")));
    forget_all(w);
}

/* The key that minted it is another source: its own credential was not refused. */
static void a_token_and_its_key_are_counted_apart(void **state)
{
    (void)state;
    struct engine_reactor *w = calloc(1, sizeof *w);
    note(w, 0, true);
    note_token(w, 1, ERR_CREDENTIAL_EXPIRED);
    note(w, 0, true);
    assert_int_equal(w->refused.count, 2);
    assert_int_equal(w->refused.sources[0].count, 2);
    assert_null(w->refused.sources[0].token);
    forget_all(w);
    /* and where it came first: what it is no key for has no token's names */
    w = calloc(1, sizeof *w);
    note_token(w, 1, ERR_CREDENTIAL_EXPIRED);
    note_of_key(w, (struct id){.bytes = {3}}, true);
    assert_int_equal(w->refused.count, 2);
    assert_int_equal(w->refused.sources[0].count, 1);
    assert_null(w->refused.sources[1].token);
    forget_all(w);
}

static void more_tokens_than_places_share_the_last(void **state)
{
    (void)state;
    struct engine_reactor *w = calloc(1, sizeof *w);
    for (unsigned i = 0; i < 300; i++) note_token(w, i, ERR_CREDENTIAL_EXPIRED);
    assert_int_equal(w->refused.count, REFUSED_SOURCES_MAX);
    assert_int_equal(counted(w), 300);
    assert_null(w->refused.sources[REFUSED_SOURCES_MAX - 1].token);
    assert_false(w->refused.sources[REFUSED_SOURCES_MAX - 1].has_key_id);
    forget_all(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(more_sources_than_places_share_the_last),
        cmocka_unit_test(ids_that_are_made_up_leave_the_places_to_keys),
        cmocka_unit_test(a_key_is_found_behind_blanks),
        cmocka_unit_test(what_has_no_key_s_form_is_one_source),
        cmocka_unit_test(a_source_has_the_address_of_its_latest_client),
        cmocka_unit_test(a_rejected_token_is_a_source_of_its_own_and_keeps_its_names),
        cmocka_unit_test(a_token_and_its_key_are_counted_apart),
        cmocka_unit_test(more_tokens_than_places_share_the_last),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

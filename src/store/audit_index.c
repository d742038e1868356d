#include "store/audit_index.h"

#include <stdlib.h>

#include "base/arena.h"
#include "base/check.h"
#include "base/map.h"
#include "crypto/crypto.h"
#include "store/copy.h"

enum {
    WORDS_MAX = 20000, /* words noted before an early write */
    INDEX_ARENA_FIRST = 256 << 10,
    INDEX_ARENA_LIMIT = 256 << 20,
    ARRAY_BYTES_MAX = 64 << 20, /* 20,000 values of 256 characters, escaped */
};

/* A future row of `places`. Its key is all of it except the blocks. */
struct word {
    struct word *next;
    struct str tenant, value;
    enum audit_member member;
    uint64_t segment, blocks;
};

struct minute {
    struct minute *next;
    struct str tenant;
    uint64_t minute, first_id, last_id;
};

struct audit_index {
    struct database *database; /* borrowed */
    struct arena arena;        /* of this transaction */
    struct map words, minutes;
    struct word *first_word;
    struct minute *first_minute;
};

struct audit_index *audit_index_create(struct database *d)
{
    struct audit_index *x = calloc(1, sizeof *x);
    check(x != NULL);
    x->database = d;
    arena_init(&x->arena, INDEX_ARENA_FIRST, INDEX_ARENA_LIMIT);
    return x;
}

void audit_index_destroy(struct audit_index *x)
{
    if (x == NULL) return;
    map_fini(&x->words);
    map_fini(&x->minutes);
    arena_fini(&x->arena);
    free(x);
}

void audit_index_clear(struct audit_index *x)
{
    if (x->first_word == NULL && x->first_minute == NULL) return;
    map_fini(&x->words);
    map_fini(&x->minutes);
    arena_reset(&x->arena);
    x->first_word = NULL;
    x->first_minute = NULL;
}

uint32_t audit_trace_hash(struct str trace_id) { return crc32c(0, trace_id.bytes, trace_id.size); }

/* ---- noting ---- */

/* "number tag tenant 0 value", in the arena: the key of a word or a minute in a map. The caller
 * gives the space back if the key was already in the map. */
static struct str key_of(struct arena *a, uint64_t number, char tag, struct str tenant,
                         struct str value)
{
    size_t size = sizeof number + 1 + tenant.size + 1 + value.size;
    char *bytes = arena_bytes(a, size);
    if (bytes == NULL) return (struct str){0};
    struct buf b = buf_over(bytes, size);
    buf_put(&b, str_of((const char *)&number, sizeof number));
    buf_put_byte(&b, tag);
    buf_put(&b, tenant);
    buf_put_byte(&b, '\0');
    buf_put(&b, value);
    return buf_view(&b);
}

static void key_drop(struct arena *a, struct str key)
{
    arena_trim(a, (char *)(uintptr_t)key.bytes, key.size, 0);
}

static enum err note_word(struct audit_index *x, const struct event *e, enum audit_member member,
                          struct str value, uint64_t id)
{
    if (str_is_absent(value)) return ERR_OK;
    uint64_t segment = id >> AUDIT_SEGMENT_BITS;
    uint64_t bit = 1ull << (id >> AUDIT_BLOCK_BITS & 63);
    struct str key = key_of(&x->arena, segment, (char)member, e->tenant_id, value);
    if (str_is_absent(key)) return ERR_FULL;
    struct word *w = map_get(&x->words, key);
    if (w != NULL) {
        key_drop(&x->arena, key);
        w->blocks |= bit;
        return ERR_OK;
    }
    w = arena_new(&x->arena, struct word);
    if (w == NULL) return ERR_FULL;
    *w = (struct word){.next = x->first_word,
                       .member = member,
                       .segment = segment,
                       .blocks = bit,
                       .tenant = str_of(key.bytes + sizeof segment + 1, e->tenant_id.size),
                       .value = str_of(key.bytes + key.size - value.size, value.size)};
    if (!map_put(&x->words, key, w)) return ERR_FULL;
    x->first_word = w;
    return ERR_OK;
}

static enum err note_minute(struct audit_index *x, const struct event *e, uint64_t id)
{
    uint64_t minute = e->timestamp / AUDIT_MINUTE_MS;
    struct str key = key_of(&x->arena, minute, 'm', e->tenant_id, STR(""));
    if (str_is_absent(key)) return ERR_FULL;
    struct minute *m = map_get(&x->minutes, key);
    if (m != NULL) {
        key_drop(&x->arena, key);
        m->last_id = id; /* ids only rise */
        return ERR_OK;
    }
    m = arena_new(&x->arena, struct minute);
    if (m == NULL) return ERR_FULL;
    *m = (struct minute){.next = x->first_minute,
                         .minute = minute,
                         .first_id = id,
                         .last_id = id,
                         .tenant = str_of(key.bytes + sizeof minute + 1, e->tenant_id.size)};
    if (!map_put(&x->minutes, key, m)) return ERR_FULL;
    x->first_minute = m;
    return ERR_OK;
}

static enum err add_trace(struct audit_index *x, struct str trace_id, uint64_t id)
{
    /* PostgreSQL has the trace in `identities`, with the other keys of a record. */
    if (str_is_absent(trace_id) || database_is_postgres(x->database)) return ERR_OK;
    struct statement *s = database_statement(
        x->database, "INSERT INTO traces (segment, hash, id) VALUES (?1, ?2, ?3)");
    bind_u64(s, 1, id >> AUDIT_SEGMENT_BITS);
    bind_u64(s, 2, audit_trace_hash(trace_id));
    bind_u64(s, 3, id);
    return statement_run(s);
}

enum err audit_index_note(struct audit_index *x, const struct event *e, uint64_t id)
{
    const struct str values[AUDIT_MEMBERS] = {
        [AUDIT_TENANT] = STR(""),       [AUDIT_ACTOR] = e->actor, [AUDIT_ACTION] = e->action,
        [AUDIT_DECISION] = e->decision, [AUDIT_KIND] = e->kind,   [AUDIT_RULE] = e->rule,
        [AUDIT_USER] = e->user_id,
    };
    enum err err = x->words.count > WORDS_MAX ? audit_index_flush(x) : ERR_OK;
    for (int m = 0; m < AUDIT_MEMBERS && err == ERR_OK; m++)
        err = note_word(x, e, (enum audit_member)m, values[m], id);
    if (err == ERR_OK) err = note_minute(x, e, id);
    return err == ERR_OK ? add_trace(x, e->trace_id, id) : err;
}

/* ---- writing ---- */

static enum err write_word(struct database *d, const struct word *w)
{
    struct statement *s = database_statement(
        d,
        "INSERT INTO places (segment, tenant_id, member, value, blocks) VALUES (?1, ?2, ?3, ?4, ?5)"
        " ON CONFLICT (segment, tenant_id, member, value) DO UPDATE SET blocks = "
        "places.blocks | excluded.blocks");
    bind_u64(s, 1, w->segment);
    bind_text(s, 2, w->tenant);
    bind_u64(s, 3, w->member);
    bind_text(s, 4, w->value);
    bind_bits(s, 5, w->blocks);
    return statement_run(s);
}

static enum err write_minute(struct database *d, const struct minute *m)
{
    struct statement *s = database_statement(
        d, "INSERT INTO minutes (tenant_id, minute, first_id, last_id) VALUES (?1, ?2, ?3, ?4)"
           " ON CONFLICT (tenant_id, minute) DO UPDATE SET first_id = min(first_id, "
           "excluded.first_id),"
           " last_id = max(last_id, excluded.last_id)");
    bind_text(s, 1, m->tenant);
    bind_u64(s, 2, m->minute);
    bind_u64(s, 3, m->first_id);
    bind_u64(s, 4, m->last_id);
    return statement_run(s);
}

/* ---- the same for PostgreSQL: all words in one statement, as arrays ---- */

struct columns { /* '{…}' of each column */
    struct buf numbers[3], texts[2];
};

static void columns_init(struct columns *c)
{
    for (size_t i = 0; i < 3; i++) buf_init(&c->numbers[i], 4 << 10, ARRAY_BYTES_MAX);
    for (size_t i = 0; i < 2; i++) buf_init(&c->texts[i], 4 << 10, ARRAY_BYTES_MAX);
}

static void columns_fini(struct columns *c)
{
    for (size_t i = 0; i < 3; i++) buf_fini(&c->numbers[i]);
    for (size_t i = 0; i < 2; i++) buf_fini(&c->texts[i]);
}

static struct str literal(struct buf *b)
{
    if (b->size == 0) return STR("{}");
    buf_put_literal(b, "}\0"); /* libpq reads it as a C string */
    return buf_view(b);
}

static enum err write_words_at_once(struct audit_index *x)
{
    struct columns c;
    columns_init(&c);
    for (const struct word *w = x->first_word; w != NULL; w = w->next) {
        array_put_number(&c.numbers[0], (int64_t)w->segment);
        array_put_text(&c.texts[0], w->tenant);
        array_put_number(&c.numbers[1], w->member);
        array_put_text(&c.texts[1], w->value);
        array_put_number(&c.numbers[2], (int64_t)w->blocks);
    }
    struct statement *s = database_statement(
        x->database, "INSERT INTO places (segment, tenant_id, member, value, blocks)"
                     " SELECT * FROM unnest(?1, ?2, ?3, ?4, ?5)"
                     " ON CONFLICT (tenant_id, member, value, segment) DO UPDATE SET blocks = "
                     "places.blocks | excluded.blocks");
    bind_numbers(s, 1, literal(&c.numbers[0]));
    bind_texts(s, 2, literal(&c.texts[0]));
    bind_numbers(s, 3, literal(&c.numbers[1]));
    bind_texts(s, 4, literal(&c.texts[1]));
    bind_numbers(s, 5, literal(&c.numbers[2]));
    bool full = c.texts[0].overflow || c.texts[1].overflow || c.numbers[2].overflow;
    enum err err = full ? ERR_FULL : statement_run(s);
    columns_fini(&c);
    return err;
}

static enum err write_minutes_at_once(struct audit_index *x)
{
    struct columns c;
    columns_init(&c);
    for (const struct minute *m = x->first_minute; m != NULL; m = m->next) {
        array_put_text(&c.texts[0], m->tenant);
        array_put_number(&c.numbers[0], (int64_t)m->minute);
        array_put_number(&c.numbers[1], (int64_t)m->first_id);
        array_put_number(&c.numbers[2], (int64_t)m->last_id);
    }
    struct statement *s = database_statement(
        x->database,
        "INSERT INTO minutes (tenant_id, minute, first_id, last_id)"
        " SELECT * FROM unnest(?1, ?2, ?3, ?4) ON CONFLICT (tenant_id, minute) DO UPDATE SET"
        " first_id = least(minutes.first_id, excluded.first_id),"
        " last_id = greatest(minutes.last_id, excluded.last_id)");
    bind_texts(s, 1, literal(&c.texts[0]));
    bind_numbers(s, 2, literal(&c.numbers[0]));
    bind_numbers(s, 3, literal(&c.numbers[1]));
    bind_numbers(s, 4, literal(&c.numbers[2]));
    bool full = c.texts[0].overflow || c.numbers[2].overflow;
    enum err err = full ? ERR_FULL : statement_run(s);
    columns_fini(&c);
    return err;
}

static enum err flush_at_once(struct audit_index *x)
{
    enum err err = x->first_word == NULL ? ERR_OK : write_words_at_once(x);
    if (err == ERR_OK && x->first_minute != NULL) err = write_minutes_at_once(x);
    audit_index_clear(x);
    return err;
}

enum err audit_index_flush(struct audit_index *x)
{
    enum err err = ERR_OK;
    if (database_is_postgres(x->database)) return flush_at_once(x);
    for (const struct word *w = x->first_word; w != NULL && err == ERR_OK; w = w->next)
        err = write_word(x->database, w);
    for (const struct minute *m = x->first_minute; m != NULL && err == ERR_OK; m = m->next)
        err = write_minute(x->database, m);
    audit_index_clear(x);
    return err;
}

/* ---- reading ---- */

enum err audit_index_blocks(struct database *d, uint64_t segment, struct str tenant,
                            enum audit_member member, struct str value, uint64_t *ret_blocks)
{
    struct statement *s = database_statement(d, "SELECT blocks FROM places WHERE segment = ?1 AND "
                                                "tenant_id = ?2 AND member = ?3 AND value = ?4");
    bind_u64(s, 1, segment);
    bind_text(s, 2, tenant);
    bind_u64(s, 3, member);
    bind_text(s, 4, value);
    enum err err = statement_step(s);
    *ret_blocks = err == ERR_OK ? column_bits(s, 0) : 0;
    statement_reset(s);
    return err == ERR_END ? ERR_OK : err;
}

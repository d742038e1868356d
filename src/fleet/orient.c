#include "fleet/orient.h"

#include <stdlib.h>

#include "base/check.h"

struct orient_entry {
    enum entry_kind kind;
    struct entry_point point, before;
    struct sha256 previous;
    struct incarnation incarnation;
    uint64_t offset, seq;
    uint16_t format;
};

struct log_orient {
    size_t count;
    struct orient_entry list[ORIENT_ENTRIES_MAX];
};

struct log_orient *log_orient_create(void)
{
    struct log_orient *o = malloc(sizeof *o);
    check(o != NULL);
    o->count = 0;
    return o;
}

void log_orient_destroy(struct log_orient *o) { free(o); }

/* The entry with this digest, before number `end`; NULL: it is not there. */
static const struct orient_entry *find(const struct log_orient *o, size_t end,
                                       const struct sha256 *digest)
{
    for (size_t i = end; i-- > 0;)
        if (memcmp(o->list[i].point.digest.bytes, digest->bytes, SHA256_BYTES) == 0)
            return &o->list[i];
    return NULL;
}

/* An entry that counts and is before this one: the last such one, but for a TERM without records. That
 * names only what its sender had read when it stood. */
static const struct orient_entry *step_back(const struct log_orient *o,
                                            const struct orient_entry *e)
{
    bool is_first = e->kind == ENTRY_RECORDS && e->point.n == 1;
    return find(o, (size_t)(e - o->list), is_first ? &e->before.digest : &e->previous);
}

bool log_orient_by(const struct log_orient *o, const struct entry_point *counted,
                   struct log_replay *ret, uint64_t *ret_seq)
{
    const struct orient_entry *first = find(o, o->count, &counted->digest);
    if (first == NULL || first->kind != ENTRY_RECORDS || !entry_point_equal(&first->point, counted))
        return false;
    for (const struct orient_entry *e = first; e != NULL; e = step_back(o, e))
        if (e->kind == ENTRY_RECORDS) first = e;
    log_replay_begin(ret, NULL);
    ret->next = first->offset;
    ret->format = first->format;
    ret->leader = first->incarnation;
    ret->before = first->before;
    ret->last = (struct entry_point){
        .term = first->point.term, .n = first->point.n - 1, .digest = first->previous};
    *ret_seq = first->seq;
    return true;
}

enum orient_result log_orient_add(struct log_orient *o, const struct entry *e, uint64_t offset,
                                  struct log_replay *ret, uint64_t *ret_seq)
{
    if (e->kind == ENTRY_HEARTBEAT) {
        const struct entry_point named = {.term = e->term, .n = e->n, .digest = e->previous};
        return log_orient_by(o, &named, ret, ret_seq) ? ORIENT_FOUND : ORIENT_GOES_ON;
    }
    if (o->count == ORIENT_ENTRIES_MAX) return ORIENT_FULL;
    o->list[o->count++] = (struct orient_entry){
        .kind = e->kind,
        .point = {.term = e->term, .n = e->n, .digest = e->digest},
        .before = e->before,
        .previous = e->previous,
        .incarnation = e->incarnation,
        .offset = offset,
        .seq = e->seq,
        .format = e->format,
    };
    return ORIENT_GOES_ON;
}

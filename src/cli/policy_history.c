/* policy_history.c - reads a corpus of recorded requests in the order of time, as limits count them.
 *
 * The file is read twice: once for the place and the time of each request, and again in the order of
 * these times. So its content is not kept in memory. If the file cannot be read again (a pipe), a
 * copy is read that has no name. Requests without a time count as made now, in their order. */
#include <errno.h>
#include <stdlib.h>

#include "base/map.h"
#include "cli/policy.h"

enum {
    LINE_MOST = 32 << 20,   /* a page of 500 events */
    RETRY_MS = 10 * 60000u, /* an engine knows the outcome for an Idempotency-Key so long */
};

struct place {
    uint64_t ms, order;
    uint64_t line;
    uint64_t retry; /* names the Idempotency-Key and who sent it; 0: there is none */
    off_t offset;
    uint32_t at; /* of the page in this line, from 0 on */
};

struct history {
    struct cli *c;
    struct str corpus; /* its name */
    FILE *file;        /* the one that is read again */
    FILE *copy;        /* the same, or NULL */
    struct place *places;
    size_t count, room;
    uint64_t line, others;
    off_t offset; /* of the line that is read now */
    char *text;   /* the line */
    size_t text_room;
    struct arena arena;     /* of the line */
    struct map let_through; /* the last of each Idempotency-Key */
};

static int complain_line(const struct history *h, const struct fault *f)
{
    struct str text = text_shown(&h->c->arena, str_from(f->text));
    return cli_complain(h->c, USAGE, "%.*s:%llu: %.*s", STR_FORMAT(h->corpus),
                        (unsigned long long)h->line, STR_FORMAT(text));
}

static int complain_memory(const struct history *h)
{
    return cli_complain(h->c, USAGE, "there is not enough memory for the requests of %.*s",
                        STR_FORMAT(h->corpus));
}

static int complain_unreadable(const struct history *h)
{
    return cli_complain(h->c, USAGE, "%.*s cannot be read", STR_FORMAT(h->corpus));
}

/* ---- a line ---- */

/* The first of its requests; they are linked. NULL: the line is empty. */
static int line_read(struct history *h, struct str text, const struct json **ret)
{
    const struct json_options options = {.depth_max = JSON_DEPTH_CAP, .nul_anywhere = true};
    struct json *root;
    struct fault f;
    *ret = NULL;
    while (text.size > 0 &&
           (text.bytes[text.size - 1] == '\n' || text.bytes[text.size - 1] == '\r'))
        text.size--;
    if (text.size == 0) return DONE;
    arena_reset(&h->arena);
    if (json_read(text, &options, &h->arena, &root, &f) != ERR_OK) return complain_line(h, &f);
    const struct json *events = json_get(root, STR("events"));
    *ret = json_is_array(events) ? events->child : root; /* a page of the audit trail */
    return DONE;
}

/* ---- the places ---- */

static uint64_t retry_of(const struct policy_recorded *r)
{
    if (str_is_absent(r->retry)) return 0;
    struct str tenant = r->request.tenant;
    uint64_t parts[] = {hash_bytes(tenant.bytes, tenant.size),
                        hash_bytes(r->key_id.bytes, r->key_id.size),
                        hash_bytes(r->retry.bytes, r->retry.size)};
    return hash_bytes(parts, sizeof parts) | 1;
}

static int place_add(struct history *h, const struct policy_recorded *r, uint32_t at)
{
    if (h->count == h->room) {
        size_t room = h->room * 2 + 64;
        struct place *larger = realloc(h->places, room * sizeof *larger);
        if (larger == NULL) return complain_memory(h);
        h->places = larger;
        h->room = room;
    }
    h->places[h->count++] = (struct place){.ms = r->request.now_ms,
                                           .order = r->order,
                                           .line = h->line,
                                           .retry = retry_of(r),
                                           .offset = h->offset,
                                           .at = at};
    return DONE;
}

static int line_take(struct history *h, struct str text)
{
    struct policy_recorded recorded;
    struct fault f;
    const struct json *v;
    int code = line_read(h, text, &v);
    for (uint32_t at = 0; v != NULL && code == DONE; v = v->next, at++) {
        switch (policy_recorded_read(v, &h->arena, &recorded, &f)) {
        case RECORDED_REQUEST: code = place_add(h, &recorded, at); break;
        case RECORDED_OTHER: h->others++; break;
        case RECORDED_WRONG: return complain_line(h, &f);
        }
    }
    return code;
}

/* Also makes the copy. */
static int lines_take(struct history *h, FILE *file)
{
    ssize_t size;
    int code = DONE;
    while (code == DONE && (size = getline(&h->text, &h->text_room, file)) >= 0) {
        h->line++;
        if (size > LINE_MOST)
            return cli_complain(h->c, USAGE, "%.*s:%llu: is longer than %d bytes",
                                STR_FORMAT(h->corpus), (unsigned long long)h->line, LINE_MOST);
        code = line_take(h, str_of(h->text, (size_t)size));
        h->offset += size;
        if (h->copy != NULL && fwrite(h->text, 1, (size_t)size, h->copy) != (size_t)size)
            return cli_complain(h->c, USAGE,
                                "the requests cannot be written to a temporary file: %s",
                                strerror(errno));
    }
    return code == DONE && !feof(file) ? complain_unreadable(h) : code;
}

/* ---- again, in the order of time ---- */

static int place_compare(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    if (x->ms != y->ms) return x->ms < y->ms ? -1 : 1;
    if (x->order != y->order) return x->order < y->order ? -1 : 1;
    if (x->line != y->line) return x->line < y->line ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

/* A retry of a request that was let through was counted with that one. */
static bool is_counted_already(struct history *h, const struct place *p, bool was_let_through)
{
    if (p->retry == 0) return false;
    struct str key = str_of((const char *)&p->retry, sizeof p->retry);
    const struct place *first = map_get(&h->let_through, key);
    if (first != NULL && p->ms - first->ms < RETRY_MS) return true;
    if (was_let_through) (void)map_put(&h->let_through, key, (void *)(uintptr_t)p);
    return false;
}

static int again(struct history *h, policy_history_each *each, void *context)
{
    const struct json *first = NULL;
    struct policy_recorded recorded;
    struct fault f;
    h->line = 0;
    for (size_t i = 0; i < h->count; i++) {
        const struct place *p = &h->places[i];
        if (p->line != h->line) {
            h->line = p->line;
            ssize_t size = fseeko(h->file, p->offset, SEEK_SET) != 0
                               ? -1
                               : getline(&h->text, &h->text_room, h->file);
            int code = size < 0 ? complain_unreadable(h)
                                : line_read(h, str_of(h->text, (size_t)size), &first);
            if (code != DONE) return code;
        }
        const struct json *v = first;
        for (uint32_t at = 0; v != NULL && at < p->at; at++) v = v->next;
        if (v == NULL || policy_recorded_read(v, &h->arena, &recorded, &f) != RECORDED_REQUEST)
            return cli_complain(h->c, USAGE, "%.*s has changed while it was read",
                                STR_FORMAT(h->corpus));
        recorded.request.now_ms = p->ms;
        recorded.line = p->line;
        if (is_counted_already(h, p, recorded.was_let_through)) recorded.is_counted = false;
        each(context, &recorded);
    }
    return DONE;
}

/* ---- the whole ---- */

static int history_open(struct history *h, FILE **ret)
{
    bool is_input = str_equal(h->corpus, STR("-"));
    *ret = is_input ? stdin : fopen(h->corpus.bytes, "re");
    if (*ret == NULL)
        return cli_complain(h->c, USAGE, "%s cannot be opened: %s", h->corpus.bytes,
                            strerror(errno));
    h->offset = ftello(*ret);
    h->file = *ret;
    if (h->offset >= 0) return DONE;
    h->offset = 0;
    h->file = h->copy = tmpfile();
    if (h->copy != NULL) return DONE;
    return cli_complain(h->c, USAGE, "no temporary file can be made for the requests: %s",
                        strerror(errno));
}

int policy_history_read(struct cli *c, struct str corpus, policy_history_each *each, void *context,
                        uint64_t *ret_others)
{
    struct history h = {.c = c, .corpus = corpus};
    FILE *file;
    arena_init(&h.arena, 64 << 10, (size_t)512 << 20);
    int code = history_open(&h, &file);
    if (code == DONE) code = lines_take(&h, file);
    if (code == DONE && h.count == 0)
        code = cli_complain(c, USAGE, "%s holds no requests", corpus.bytes);
    if (h.count > 0) qsort(h.places, h.count, sizeof *h.places, place_compare);
    if (code == DONE) code = again(&h, each, context);
    *ret_others = h.others;
    if (h.copy != NULL) fclose(h.copy);
    if (file != NULL && file != stdin) fclose(file);
    map_fini(&h.let_through);
    free(h.places);
    free(h.text);
    arena_fini(&h.arena);
    return code;
}

#include "engine/resources/page.h"

#include "base/check.h"

enum { FIRST_BYTES = 16 << 10 };

struct merge {
    struct operation *e;
    const struct page_form *form;
    uint32_t *taken;         /* of each gathered answer */
    const struct call *call; /* its i-th object is next */
    uint32_t i;
    uint64_t ordinal;
    /* a shard has more than it could show, so the owner of the next object is unknown */
    bool is_cut;
};

static void merge_check(const struct merge *m)
{
    check(m->form->put != NULL && m->form->ordinal != NULL && m->taken != NULL);
    check(m->call == NULL || m->i < m->call->list.count);
}

/* Moves to the next object by ordinal of all shards' answers; false: none is left, or none is
 * known. In a growing list, objects that were made while the shards were asked are left for the next
 * page. Another shard may have been asked before it got a lower ordinal, and a cursor beyond that
 * would never show it. */
static bool advance(struct merge *m)
{
    const struct operation *e = m->e;
    unsigned from = 0;
    merge_check(m);
    m->call = NULL;
    for (unsigned k = 0; k < e->gathered_count; k++) {
        const struct call *c = e->gathered[k];
        if (m->taken[k] == c->list.count) {
            m->is_cut = m->is_cut || c->list.cut;
            continue;
        }
        uint64_t ordinal = m->form->ordinal(c, m->taken[k]);
        if (m->call != NULL && m->ordinal <= ordinal) continue;
        m->call = c;
        m->i = m->taken[k];
        m->ordinal = ordinal;
        from = k;
    }
    if (m->call == NULL || m->is_cut) return false;
    if (m->form->is_growing && m->ordinal >= m->call->list.before) return false;
    check(m->taken[from] < m->call->list.count);
    m->taken[from]++;
    return true;
}

static enum err put_things(struct buf *b, struct merge *m, uint64_t limit, uint64_t *ret_count,
                           uint64_t *ret_cursor)
{
    const struct page_form *form = m->form;
    uint64_t most = form->looked_at_max == 0 ? limit : form->looked_at_max, last = 0;
    for (uint64_t looked_at = 0;
         looked_at < most && *ret_count < limit && b->size < form->bytes_max / 2 && advance(m);
         looked_at++) {
        merge_check(m);
        check(m->ordinal >= last); /* a cursor never goes back */
        last = m->ordinal;
        if (form->is_wanted != NULL && !form->is_wanted(m->e, m->call, m->i)) continue;
        if ((*ret_count)++ > 0) buf_put_byte(b, ',');
        enum err err = form->put(b, m->e, m->call, m->i);
        if (err != ERR_OK) return err;
    }
    *ret_cursor = advance(m) || m->is_cut ? last : 0;
    return ERR_OK;
}

static enum err put_page(struct buf *b, struct merge *m, uint64_t limit)
{
    const struct operation *e = m->e;
    uint64_t total = 0, count = 0, cursor;
    check(e->gathered_count > 0);
    for (unsigned k = 0; k < e->gathered_count; k++) {
        if (e->gathered[k]->err != ERR_OK) return e->gathered[k]->err;
        total += e->gathered[k]->list.total;
    }
    buf_put(b, m->form->begin);
    enum err err = put_things(b, m, limit, &count, &cursor);
    if (err != ERR_OK) return err;
    check(count <= limit);
    buf_put_literal(b, "],\"count\":");
    buf_put_u64(b, count);
    buf_put_literal(b, ",\"limit\":");
    buf_put_u64(b, limit);
    if (m->form->has_total) {
        buf_put_literal(b, ",\"total\":");
        buf_put_u64(b, total);
    }
    buf_put_literal(b, ",\"next_cursor\":");
    buf_put_u64(b, cursor);
    buf_put_byte(b, '}');
    return b->starved ? ERR_OVERLOADED : b->overflow ? ERR_INTERNAL : ERR_OK;
}

static enum err put_form(struct buf *b, struct operation *e, const struct page_form *form,
                         uint64_t limit)
{
    check(form->is_wanted != NULL || form->looked_at_max == 0);
    struct merge m = {
        .e = e, .form = form, .taken = arena_array(e->arena, uint32_t, e->gathered_count + 1)};
    if (m.taken == NULL) return ERR_BODY_TOO_LARGE;
    buf_init(b, FIRST_BYTES, form->bytes_max);
    return put_page(b, &m, limit);
}

enum err page_reply(struct operation *e, const struct page_form *form, uint64_t limit)
{
    struct buf b = {0};
    enum err err = put_form(&b, e, form, limit);
    if (err == ERR_OK) operation_reply(e, 200, buf_view(&b), (struct str){0});
    buf_fini(&b);
    return err;
}

/* The text does not count against the memory of a request, which is smaller than a page. */
enum err page_write(struct operation *e, const struct page_form *form, uint64_t limit,
                    struct str *ret)
{
    struct buf b = {0};
    enum err err = put_form(&b, e, form, limit);
    if (err == ERR_OK) {
        struct arena before = arena_begin_aside(e->arena, b.size + FIRST_BYTES);
        *ret = arena_copy(e->arena, buf_view(&b));
        if (!arena_keep_aside(e->arena, &before) || str_is_absent(*ret)) err = ERR_OVERLOADED;
    }
    buf_fini(&b);
    return err;
}

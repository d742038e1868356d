/* page.h - one page of the objects of all shards, from the answers that an operation gathered.
 *
 * Each shard answers in the order of ordinals (or of other positions, by form.ordinal), with one object more than the page's limit. Here
 * they are merged, and the ordinal of the page's last is the cursor of the next page. A page of
 * large objects ends before its limit, at half of its bytes or if a shard had no room for more. */
#ifndef ENGINE_PAGE_H
#define ENGINE_PAGE_H

#include "base/buf.h"
#include "engine/runtime/operation.h"

struct page_form {
    struct str begin; /* the begin of the answer, up to its first object: {"items":[ */
    bool has_total;
    size_t bytes_max; /* of the answer */
    /* New objects come at the end of the list. Then those that came while the shards were asked are
     * left for the next page. */
    bool is_growing;
    uint64_t (*ordinal)(const struct call *c, uint32_t i);
    /* Whether object i of c belongs on the page; NULL: each does. */
    bool (*is_wanted)(struct operation *e, const struct call *c, uint32_t i);
    uint64_t looked_at_max; /* objects, wanted or not, for one page; 0: its limit */
    enum err (*put)(struct buf *b, struct operation *e, const struct call *c, uint32_t i);
};

/* The same in two steps, for a page that takes long to write: the first one may be work on another
 * thread (operation_offload), if the form's functions may. *ret is in the arena. */
enum err page_write(struct operation *e, const struct page_form *form, uint64_t limit,
                    struct str *ret);
/* Answers 200 with the page: the operation is DONE. Otherwise the caller has to refuse it: with the
 * error of a shard or of put(), ERR_BODY_TOO_LARGE (the arena is full), ERR_INTERNAL (longer than
 * bytes_max). */
enum err page_reply(struct operation *e, const struct page_form *form, uint64_t limit);

#endif

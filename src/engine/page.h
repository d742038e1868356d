/* page.h - one page of what all shards hold, from the answers that an errand gathered.
 *
 * Each shard answers in the order of ordinals with one thing more than the page's limit; here they
 * are merged, and the ordinal of the page's last is the cursor of the next page. A page of large
 * things ends before its limit, where it has half of its bytes or a shard had no room for more. */
#ifndef ENGINE_PAGE_H
#define ENGINE_PAGE_H

#include "base/buf.h"
#include "engine/errand.h"

struct page_form {
    struct str begin; /* the answer up to its first thing: {"items":[ */
    bool has_total;
    size_t bytes_max; /* of the answer */
    uint64_t (*ordinal)(const struct call *c, uint32_t i);
    /* Whether thing i of c belongs on the page; NULL: each does. One that does not
     * counts against the limit. */
    bool (*is_wanted)(struct errand *e, const struct call *c, uint32_t i);
    enum err (*put)(struct buf *b, struct errand *e, const struct call *c, uint32_t i);
};

/* Answers 200 with the page; else the errand is still to be refused: what a shard said or what
 * put() said, ERR_BODY_TOO_LARGE (the arena is full), ERR_INTERNAL (longer than bytes_max). */
enum err page_reply(struct errand *e, const struct page_form *form, uint64_t limit);

#endif

#include "shards/limit_table.h"

#include "base/check.h"

enum { LOOK_AGAIN_MS = 24 * 3600 * 1000 };

void limit_table_init(struct limit_table *t, size_t count_max)
{
    *t = (struct limit_table){.counters_max = 2 * count_max};
    shares_init(&t->shares, "counters", count_max, 0);
    slab_init(&t->counters, sizeof(struct counter), SIZE_MAX);
    slab_init(&t->sums, LIMIT_BUCKETS * sizeof(int64_t), SIZE_MAX);
    wheel_init(&t->wheel, 0);
}

void limit_table_fini(struct limit_table *t)
{
    map_fini(&t->by_key);
    shares_fini(&t->shares);
    slab_fini(&t->counters);
    slab_fini(&t->sums);
}

/* ---- invariants ---- */

void counter_check(const struct counter *c)
{
    check(c->window_ms > 0 && c->window_ms <= limit_time_most_ms);
    check(c->count <= (uint64_t)LIMIT_BUCKETS * UINT32_MAX);
    check(c->sum >= 0);
    check(c->sums != NULL || c->sum == 0);
    check(c->next == NULL || c->next->window_ms != c->window_ms);
}

void limit_table_check(const struct limit_table *t)
{
    check(t->by_key.count <= t->counters.count); /* a chain has at least one counter */
    check(t->sums.count <= t->counters.count);
    check(t->shares.all.count == t->by_key.count);
    shares_check(&t->shares);
}

/* ---- one counter ---- */

static struct str key_text(const struct slot_key *k)
{
    return str_of((const char *)k->bytes, sizeof k->bytes);
}

static size_t place_of(uint64_t bucket) { return (size_t)(bucket % LIMIT_BUCKETS); }

static bool is_live(const struct counter *c, uint64_t bucket)
{
    return bucket <= c->head && c->head - bucket < LIMIT_BUCKETS;
}

static uint64_t bucket_end_ms(const struct counter *c, uint64_t bucket)
{
    return limit_bucket_begin_ms(bucket + 1, c->window_ms) - 1;
}

/* So long after its newest bucket that no window can hold both that and now. */
static uint64_t end_ms(const struct counter *c)
{
    return limit_bucket_begin_ms(c->head + LIMIT_BUCKETS + 1, c->window_ms);
}

/* The longest window that the chain has to serve: of its counters, or the limit's present one. */
static uint64_t longest_window(const struct limit_table *t, const struct counter *first)
{
    uint64_t longest = 0;
    const struct limit_windows *w = t->windows;
    if (w != NULL && w->is_unknown) return limit_time_most_ms;
    if (w != NULL)
        longest = first->is_old ? w->longest_ms : limit_windows_of(w, limit_tag(&first->key));
    for (const struct counter *c = first; c != NULL; c = c->next)
        if (c->window_ms > longest) longest = c->window_ms;
    return longest;
}

/* When no window of this length can hold anything of the counter. */
static uint64_t end_for(const struct counter *c, uint64_t window_ms)
{
    return c->window_ms < window_ms ? bucket_end_ms(c, c->head) + window_ms : end_ms(c);
}

static uint64_t chain_end_ms(const struct limit_table *t, const struct counter *first)
{
    uint64_t longest = longest_window(t, first), end = 0;
    for (const struct counter *c = first; c != NULL; c = c->next) {
        uint64_t own = end_for(c, longest);
        if (own > end) end = own;
    }
    return end;
}

/* If a counter is looked at too early, this is only repeated later. */
static void keep_a_while(struct limit_table *t, struct counter *first, const struct counter *c)
{
    uint64_t end = end_ms(c);
    if (c != first && end_ms(first) > end) end = end_ms(first);
    wheel_add(&t->wheel, &first->timer, end);
}

static void give(struct limit_table *t, struct counter *c)
{
    if (c->sums != NULL) slab_give(&t->sums, c->sums);
    slab_give(&t->counters, c);
}

static void drop(struct limit_table *t, struct counter *first)
{
    wheel_remove(&t->wheel, &first->timer);
    check(map_remove(&t->by_key, key_text(&first->key)) == first);
    shares_leave(&t->shares, first->share, 0);
    for (struct counter *c = first, *next; c != NULL; c = next) {
        next = c->next;
        give(t, c);
    }
}

/* Drops counters of windows that the limit had long ago; the first stays, as it has the timer. */
static void drop_ended(struct limit_table *t, struct counter *first, uint64_t now_ms)
{
    uint64_t longest = longest_window(t, first);
    for (struct counter **at = &first->next; *at != NULL;) {
        struct counter *c = *at;
        if (end_for(c, longest) > now_ms) {
            at = &c->next;
            continue;
        }
        *at = c->next;
        give(t, c);
    }
}

static struct counter *chain_find(const struct limit_table *t, const struct limit_request *ask)
{
    return map_get(&t->by_key, key_text(&ask->key));
}

static struct counter *of_window(struct counter *first, uint64_t window_ms)
{
    while (first != NULL && first->window_ms != window_ms) first = first->next;
    return first;
}

/* ---- whose place ---- */

static struct share_asker asker_of(const struct limit_request *ask)
{
    static const struct id none;
    struct share_asker who = {.tenant = ask->tenant};
    if (!id_equal(ask->asker, none)) who.key = str_of((const char *)ask->asker.bytes, ID_BYTES);
    return who;
}

static enum err own(struct limit_table *t, struct counter *first, const struct limit_request *ask,
                    uint64_t at_ms)
{
    const struct share_asker who = asker_of(ask);
    struct share *share = shares_enter(&t->shares, &who, 0, at_ms);
    if (share == NULL) return ERR_FULL;
    if (first->share != NULL) shares_leave(&t->shares, first->share, 0);
    for (struct counter *c = first; c != NULL; c = c->next) c->share = share;
    first->is_unnamed = str_is_empty(ask->tenant);
    return ERR_OK;
}

enum err limit_table_own(struct limit_table *t, const struct limit_request *ask)
{
    struct counter *first = chain_find(t, ask);
    if (first == NULL) return ERR_OK;
    return own(t, first, ask, limit_bucket_begin_ms(first->head, first->window_ms));
}

/* Whether nothing of the chain is needed at this time. */
static bool is_empty(const struct limit_table *t, const struct counter *first, uint64_t now_ms)
{
    if (chain_end_ms(t, first) <= now_ms) return true;
    for (const struct counter *c = first; c != NULL; c = c->next)
        if (c->count > 0 || c->sum > 0) return false;
    return true;
}

/* Adds a counter to the chain that begins with `first` (NULL: makes the first). NULL: no memory. */
static struct counter *counter_make(struct limit_table *t, struct counter *first,
                                    const struct limit_request *ask, uint64_t head, uint64_t at_ms)
{
    check(of_window(first, ask->window_ms) == NULL); /* one for each key and window */
    struct counter *c = slab_take(&t->counters);
    if (c == NULL) return NULL;
    c->key = ask->key;
    c->is_old = ask->is_old;
    c->window_ms = ask->window_ms;
    c->head = head;
    if (first != NULL) {
        c->share = first->share;
        c->next = first->next;
        first->next = c;
    } else if (own(t, c, ask, at_ms) != ERR_OK || !map_put(&t->by_key, key_text(&c->key), c)) {
        if (c->share != NULL) shares_leave(&t->shares, c->share, 0);
        slab_give(&t->counters, c);
        return NULL;
    }
    keep_a_while(t, first == NULL ? c : first, c);
    counter_check(c);
    return c;
}

/* Makes room for a request at `stamp_ms`, so that counting it cannot fail. NULL: no memory. */
static struct counter *counter_take(struct limit_table *t, const struct limit_request *ask,
                                    uint64_t stamp_ms)
{
    struct counter *first = chain_find(t, ask), *c = of_window(first, ask->window_ms);
    if (c == NULL) {
        c = counter_make(t, first, ask, limit_bucket(stamp_ms, ask->window_ms), stamp_ms);
        if (c != NULL && first != NULL) drop_ended(t, first, stamp_ms);
    }
    if (c == NULL || ask->amount <= 0 || c->sums != NULL) return c;
    c->sums = slab_take(&t->sums);
    return c->sums == NULL ? NULL : c;
}

/* Empties the buckets that left the window. */
static void advance(struct limit_table *t, struct counter *first, struct counter *c,
                    uint64_t bucket)
{
    if (bucket <= c->head) return;
    uint64_t steps = bucket - c->head;
    if (steps > LIMIT_BUCKETS) steps = LIMIT_BUCKETS;
    for (uint64_t i = 0; i < steps; i++) {
        size_t at = place_of(bucket - i);
        check(c->count >= c->counts[at]);
        c->count -= c->counts[at];
        c->counts[at] = 0;
        if (c->sums == NULL) continue;
        check(c->sums[at] >= 0 && c->sum >= c->sums[at]);
        c->sum -= c->sums[at];
        c->sums[at] = 0;
    }
    c->head = bucket;
    keep_a_while(t, first, c);
    counter_check(c);
}

/* Keeps the sum of all buckets within an int64: it cuts the last addition. Bounded sums never reach
 * that, but what a person let through is not bounded. */
static void add(struct counter *c, uint64_t stamp_ms, uint64_t requests, int64_t amount)
{
    uint64_t bucket = limit_bucket(stamp_ms, c->window_ms);
    size_t at = place_of(bucket);
    check(is_live(c, bucket));
    if (stamp_ms > c->newest_ms) c->newest_ms = stamp_ms;
    uint32_t room = UINT32_MAX - c->counts[at], more = requests < room ? (uint32_t)requests : room;
    c->counts[at] += more;
    c->count += more;
    if (amount <= 0) return;
    check(c->sums != NULL && c->sum >= 0);
    if (amount > INT64_MAX - c->sum) amount = INT64_MAX - c->sum;
    c->sums[at] += amount;
    c->sum += amount;
}

/* ---- counting ---- */

static int64_t sum_at(const struct counter *c, size_t at)
{
    return c->sums == NULL ? 0 : c->sums[at];
}

/* The use in this window of a counter with another window: its buckets whose newest moment is in
 * it. */
static void use_others(struct limit_used *u, const struct counter *c, uint64_t window_ms,
                       uint64_t now_ms)
{
    for (uint64_t back = 0; back < LIMIT_BUCKETS && back <= c->head; back++) {
        size_t at = place_of(c->head - back);
        uint64_t newest = bucket_end_ms(c, c->head - back);
        if (newest > c->newest_ms) newest = c->newest_ms;
        if (newest + window_ms <= now_ms) break; /* and earlier buckets are older still */
        limit_used_add(u, &(struct limit_used){c->counts[at], sum_at(c, at)});
    }
}

/* The use of the whole chain in this window. Drops old buckets of the counter of that window. */
static struct limit_used used(struct limit_table *t, struct counter *first,
                              const struct limit_request *ask, uint64_t now_ms)
{
    struct limit_used u = ask->before;
    for (struct counter *c = first; c != NULL; c = c->next) {
        if (c->window_ms == ask->window_ms) {
            advance(t, first, c, limit_bucket(now_ms, c->window_ms));
            limit_used_add(&u, &(struct limit_used){c->count, c->sum});
        } else {
            use_others(&u, c, ask->window_ms, now_ms);
        }
    }
    return u;
}

static bool is_over(const struct limit_used *u, const struct limit_request *ask)
{
    int64_t whole;
    if (ask->let_through) return false;
    if (ask->count_max != 0 && u->count >= ask->count_max) return true;
    if (!ask->has_max) return false;
    return ask->amount < 0 || __builtin_add_overflow(u->sum, ask->amount, &whole) ||
           whole > ask->amount_max;
}

/* The clock of another reactor may be behind: the newest time here counts then. */
static uint64_t stamp_of(struct counter *first, const struct limit_request *ask, uint64_t now_ms)
{
    const struct counter *c = of_window(first, ask->window_ms);
    bool is_behind = c != NULL && limit_bucket(now_ms, c->window_ms) < c->head;
    return is_behind ? limit_bucket_begin_ms(c->head, c->window_ms) : now_ms;
}

static enum err place_ask(struct limit_table *t, const struct limit_request *ask, uint64_t now_ms,
                          struct quota *ret)
{
    const struct share_asker who = asker_of(ask);
    enum err err = shares_ask(&t->shares, &who, 0, now_ms, ret);
    if (err != ERR_OK) return err;
    return t->counters.count >= t->counters_max ? ERR_FULL : ERR_OK; /* windows have changed */
}

enum err limit_count(struct limit_table *t, const struct limit_request *ask, uint64_t now_ms,
                     struct limit_told *ret, struct quota *ret_quota)
{
    limit_table_check(t);
    /* A later clock than this has dropped counters: a new one must not count in the time that they
     * covered. */
    if (now_ms < t->wheel.now_ms) now_ms = t->wheel.now_ms;
    struct counter *first = chain_find(t, ask);
    struct limit_used u = used(t, first, ask, now_ms);
    *ret = (struct limit_told){.used = u, .stamp_ms = stamp_of(first, ask, now_ms)};
    if (ask->look_only || ask->is_old) {
        ret->counted = !is_over(&u, ask);
        return ERR_OK;
    }
    enum err err = first == NULL ? place_ask(t, ask, now_ms, ret_quota) : ERR_OK;
    if (err != ERR_OK) return err;
    if (is_over(&u, ask)) return ERR_OK;
    ret->takes_place = !str_is_empty(ask->tenant) &&
                       (first == NULL || first->is_unnamed || is_empty(t, first, now_ms));
    if (ret->takes_place && first != NULL && own(t, first, ask, now_ms) != ERR_OK) return ERR_FULL;
    struct counter *c = counter_take(t, ask, now_ms);
    if (c == NULL) return ERR_FULL;
    ret->counted = true;
    add(c, ret->stamp_ms, 1, ask->amount);
    counter_check(c);
    return ERR_OK;
}

void limit_uncount(struct limit_table *t, const struct limit_request *ask,
                   const struct limit_told *told)
{
    struct counter *first = chain_find(t, ask), *c = of_window(first, ask->window_ms);
    if (c == NULL || !told->counted) return;
    if (told->takes_place) first->is_unnamed = true;
    uint64_t bucket = limit_bucket(told->stamp_ms, c->window_ms);
    size_t at = place_of(bucket);
    if (!is_live(c, bucket) || c->counts[at] == 0) return;
    check(c->count > 0);
    c->counts[at]--;
    c->count--;
    /* If a sum was cut, its share of this request is unknown: the sum stays until it is old. */
    if (ask->amount <= 0 || c->sums == NULL || c->sum == INT64_MAX) return;
    int64_t amount = ask->amount < c->sums[at] ? ask->amount : c->sums[at];
    check(amount >= 0 && amount <= c->sum);
    c->sums[at] -= amount;
    c->sum -= amount;
}

enum err limit_apply(struct limit_table *t, const struct limit_request *ask,
                     const struct limit_told *told)
{
    struct counter *before = chain_find(t, ask);
    struct counter *c = counter_take(t, ask, told->stamp_ms);
    if (c == NULL) return ERR_FULL;
    if (told->takes_place && before != NULL && own(t, before, ask, told->stamp_ms) != ERR_OK)
        return ERR_FULL;
    uint64_t bucket = limit_bucket(told->stamp_ms, c->window_ms);
    advance(t, chain_find(t, ask), c, bucket);
    if (is_live(c, bucket)) add(c, told->stamp_ms, 1, ask->amount);
    counter_check(c);
    return ERR_OK;
}

void limit_count_more(struct limit_table *t, const struct limit_request *ask, uint64_t stamp_ms,
                      uint64_t requests)
{
    struct counter *c = of_window(chain_find(t, ask), ask->window_ms);
    if (c != NULL && is_live(c, limit_bucket(stamp_ms, c->window_ms)))
        add(c, stamp_ms, requests, 0);
}

bool limit_table_prune(struct limit_table *t, uint64_t now_ms, size_t most)
{
    size_t looked = 0;
    for (struct wheel_entry *due; looked < most && (due = wheel_due(&t->wheel, now_ms)) != NULL;
         looked++) {
        struct counter *first = link_owner(due, struct counter, timer);
        uint64_t end = chain_end_ms(t, first), later = now_ms + LOOK_AGAIN_MS;
        if (end > now_ms) /* the limit may have a shorter window by then */
            wheel_add(&t->wheel, &first->timer, end < later ? end : later);
        else
            drop(t, first);
    }
    limit_table_check(t);
    return looked > 0;
}

uint64_t limit_table_next_ms(const struct limit_table *t) { return wheel_next_ms(&t->wheel); }

/* ---- snapshots ----
 *
 * Key, window (its highest bit is set unless the key holds it), head (its highest bit is set if the
 * next three follow: the asker's id, the size of the tenant, the tenant), then how far behind head,
 * count and sum of each bucket that is not empty, oldest first; little-endian. Head is the newest
 * of these, so that two counters with the same counts are saved alike, however often they
 * refused. */

enum { COUNTER_HEAD = SLOT_KEY_BYTES + 16, COUNTER_BUCKET = 13 };
enum { TENANT_BYTES_MAX = 4 * LIMIT_ID_CHARACTERS };

static const uint64_t key_without_window = UINT64_C(1) << 63, has_owner = UINT64_C(1) << 63;

static void put_number(struct buf *out, uint64_t value, size_t bytes)
{
    check(bytes <= 8 && (bytes == 8 || value >> (8 * bytes) == 0));
    for (size_t i = 0; i < bytes; i++) buf_put_byte(out, (char)(value >> (8 * i)));
}

static uint64_t number_at(const char *from, size_t bytes)
{
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; i++) value |= (uint64_t)(uint8_t)from[i] << (8 * i);
    return value;
}

static bool is_filled(const struct counter *c, size_t at)
{
    return c->counts[at] > 0 || sum_at(c, at) > 0;
}

/* The counter of the chain with the next longer window that holds anything. */
static struct counter *next_longer(struct counter *first, uint64_t window_ms)
{
    struct counter *found = NULL;
    for (struct counter *c = first; c != NULL; c = c->next)
        if (c->window_ms > window_ms && (c->count > 0 || c->sum > 0) &&
            (found == NULL || c->window_ms < found->window_ms))
            found = c;
    return found;
}

struct counter *limit_table_next(const struct limit_table *t, size_t *cursor,
                                 const struct counter *after)
{
    struct str key;
    void *value;
    struct counter *c = NULL;
    if (after != NULL)
        c = next_longer(map_get(&t->by_key, key_text(&after->key)), after->window_ms);
    while (c == NULL && map_next(&t->by_key, cursor, &key, &value)) c = next_longer(value, 0);
    return c;
}

/* A share of a tenant has no key: zeros. */
static void put_owner(struct buf *out, const struct share *share)
{
    const bool has_key = share->parent->parent != NULL;
    const struct str tenant = has_key ? share->parent->name : share->name;
    static const struct id none;
    const char *key = has_key ? share_key(share).bytes : (const char *)none.bytes;
    buf_put(out, str_of(key, ID_BYTES));
    put_number(out, tenant.size, 2);
    buf_put(out, tenant);
}

/* Takes it from *rest, which is behind the head. False: it is damaged. */
static bool take_owner(struct str *rest, struct limit_request *ret)
{
    if (rest->size < ID_BYTES + 2) return false;
    memcpy(ret->asker.bytes, rest->bytes, ID_BYTES);
    size_t size = number_at(rest->bytes + ID_BYTES, 2);
    *rest = str_skip(*rest, ID_BYTES + 2);
    if (size == 0 || size > TENANT_BYTES_MAX || size > rest->size) return false;
    ret->tenant = str_of(rest->bytes, size);
    *rest = str_skip(*rest, size);
    return true;
}

void counter_put(const struct limit_table *t, const struct counter *c, struct buf *out)
{
    const bool is_unnamed =
        ((const struct counter *)map_get(&t->by_key, key_text(&c->key)))->is_unnamed;
    uint64_t newest = c->head;
    while (newest > 0 && c->head - newest < LIMIT_BUCKETS - 1 && !is_filled(c, place_of(newest)))
        newest--;
    const size_t before = out->size;
    counter_check(c);
    buf_put(out, key_text(&c->key));
    put_number(out, c->window_ms | (c->is_old ? 0 : key_without_window), 8);
    const bool is_owned = c->share->parent != NULL && !is_unnamed;
    put_number(out, newest | (is_owned ? has_owner : 0), 8);
    if (is_owned) put_owner(out, c->share);
    for (uint64_t back = LIMIT_BUCKETS; back-- > 0;) {
        size_t at = place_of(newest - back);
        if (newest < back || !is_live(c, newest - back) || !is_filled(c, at)) continue;
        put_number(out, back, 1);
        put_number(out, c->counts[at], 4);
        put_number(out, (uint64_t)sum_at(c, at), 8);
    }
    check(out->size - before <= COUNTER_BYTES_MAX);
}

struct saved_bucket {
    uint64_t back;
    uint32_t count;
    int64_t sum;
};

static struct saved_bucket bucket_at(struct str bytes, size_t i)
{
    check(i + COUNTER_BUCKET <= bytes.size);
    const char *from = bytes.bytes + i;
    return (struct saved_bucket){.back = (uint8_t)from[0],
                                 .count = (uint32_t)number_at(from + 1, 4),
                                 .sum = (int64_t)number_at(from + 5, 8)};
}

/* *ret_has_sums: at least one bucket has a sum. */
static bool is_sound(struct str buckets, uint64_t window_ms, uint64_t head, bool *ret_has_sums)
{
    if (window_ms == 0 || window_ms > limit_time_most_ms || buckets.size % COUNTER_BUCKET != 0 ||
        head / (LIMIT_BUCKETS - 1) > limit_time_most_ms / limit_window(window_ms))
        return false;
    uint64_t before = LIMIT_BUCKETS; /* buckets are oldest first, each once */
    int64_t sum = 0;
    for (size_t i = 0; i < buckets.size; i += COUNTER_BUCKET) {
        struct saved_bucket b = bucket_at(buckets, i);
        if (b.back >= before || b.back > head || b.sum < 0 ||
            __builtin_add_overflow(sum, b.sum, &sum))
            return false;
        before = b.back;
    }
    *ret_has_sums = sum > 0;
    return true;
}

/* The head of the counter, and its buckets. */
static bool head_read(struct str bytes, struct limit_request *ret, uint64_t *ret_head,
                      struct str *ret_buckets)
{
    if (bytes.size < COUNTER_HEAD) return false;
    memcpy(ret->key.bytes, bytes.bytes, sizeof ret->key.bytes);
    uint64_t window = number_at(bytes.bytes + SLOT_KEY_BYTES, 8),
             head = number_at(bytes.bytes + SLOT_KEY_BYTES + 8, 8);
    ret->is_old = (window & key_without_window) == 0;
    ret->window_ms = window & ~key_without_window;
    *ret_head = head & ~has_owner;
    *ret_buckets = str_skip(bytes, COUNTER_HEAD);
    return (head & has_owner) == 0 || take_owner(ret_buckets, ret);
}

enum err counter_load(struct limit_table *t, struct str bytes)
{
    struct limit_request ask = {0};
    struct str buckets;
    uint64_t head;
    bool has_sums;
    if (!head_read(bytes, &ask, &head, &buckets) ||
        !is_sound(buckets, ask.window_ms, head, &has_sums))
        return ERR_CORRUPT;
    struct counter *first = chain_find(t, &ask);
    if (of_window(first, ask.window_ms) != NULL) return ERR_EXISTS;
    int64_t *sums = has_sums ? slab_take(&t->sums) : NULL;
    const uint64_t at_ms = limit_bucket_begin_ms(head, ask.window_ms);
    struct counter *c = has_sums && sums == NULL ? NULL : counter_make(t, first, &ask, head, at_ms);
    if (c == NULL) {
        if (sums != NULL) slab_give(&t->sums, sums);
        return ERR_FULL;
    }
    c->sums = sums;
    c->newest_ms = bucket_end_ms(c, head); /* or earlier: the exact time was not recorded */
    for (size_t i = 0; i < buckets.size; i += COUNTER_BUCKET) {
        struct saved_bucket b = bucket_at(buckets, i);
        size_t at = place_of(head - b.back);
        c->counts[at] = b.count;
        c->count += b.count;
        if (has_sums) c->sums[at] = b.sum;
        c->sum += b.sum;
    }
    counter_check(c);
    limit_table_check(t);
    return ERR_OK;
}

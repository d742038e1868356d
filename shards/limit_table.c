#include "shards/limit_table.h"

void limit_table_init(struct limit_table *t, size_t count_max)
{
    *t = (struct limit_table){.count_max = count_max};
    slab_init(&t->counters, sizeof(struct counter), SIZE_MAX);
    slab_init(&t->sums, LIMIT_BUCKETS * sizeof(int64_t), SIZE_MAX);
    wheel_init(&t->wheel, 0);
}

void limit_table_fini(struct limit_table *t)
{
    map_fini(&t->by_key);
    slab_fini(&t->counters);
    slab_fini(&t->sums);
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

/* Long enough after its newest bucket that no window can hold both that and now. */
static void keep_a_while(struct limit_table *t, struct counter *c)
{
    wheel_add(&t->wheel, &c->timer,
              limit_bucket_begin_ms(c->head + LIMIT_BUCKETS + 1, c->window_ms));
}

static void drop(struct limit_table *t, struct counter *c)
{
    wheel_remove(&t->wheel, &c->timer);
    map_remove(&t->by_key, key_text(&c->key));
    if (c->sums != NULL) slab_give(&t->sums, c->sums);
    slab_give(&t->counters, c);
}

static struct counter *counter_make(struct limit_table *t, struct slot_key key, uint64_t window_ms,
                                    uint64_t head)
{
    struct counter *c = slab_take(&t->counters);
    if (c == NULL) return NULL;
    c->key = key;
    c->window_ms = window_ms;
    c->head = head;
    if (map_put(&t->by_key, key_text(&c->key), c)) {
        keep_a_while(t, c);
        return c;
    }
    slab_give(&t->counters, c);
    return NULL;
}

/* Room for what is to be counted at `stamp_ms`, so that counting it cannot fail. NULL: no
 * memory. */
static struct counter *counter_take(struct limit_table *t, const struct limit_ask *ask,
                                    uint64_t stamp_ms)
{
    struct counter *c = map_get(&t->by_key, key_text(&ask->key));
    if (c == NULL)
        c = counter_make(t, ask->key, ask->window_ms, limit_bucket(stamp_ms, ask->window_ms));
    if (c == NULL || ask->amount <= 0 || c->sums != NULL) return c;
    c->sums = slab_take(&t->sums);
    return c->sums == NULL ? NULL : c;
}

/* Buckets that fell out of the window are emptied. */
static void advance(struct limit_table *t, struct counter *c, uint64_t bucket)
{
    if (bucket <= c->head) return;
    uint64_t steps = bucket - c->head;
    if (steps > LIMIT_BUCKETS) steps = LIMIT_BUCKETS;
    for (uint64_t i = 0; i < steps; i++) {
        size_t at = place_of(bucket - i);
        c->count -= c->counts[at];
        c->counts[at] = 0;
        if (c->sums == NULL) continue;
        c->sum -= c->sums[at];
        c->sums[at] = 0;
    }
    c->head = bucket;
    keep_a_while(t, c);
}

/* The sum of all buckets stays within an int64 by its last addition being cut: sums that are
 * bounded never come near, but what a person let through is not bounded. */
static void add(struct counter *c, uint64_t bucket, uint64_t requests, int64_t amount)
{
    size_t at = place_of(bucket);
    uint32_t room = UINT32_MAX - c->counts[at], more = requests < room ? (uint32_t)requests : room;
    c->counts[at] += more;
    c->count += more;
    if (amount <= 0) return;
    if (amount > INT64_MAX - c->sum) amount = INT64_MAX - c->sum;
    c->sums[at] += amount;
    c->sum += amount;
}

/* ---- counting ---- */

static bool is_over(const struct counter *c, const struct limit_ask *ask)
{
    int64_t whole;
    if (ask->let_through) return false;
    if (ask->count_max != 0 && c->count >= ask->count_max) return true;
    if (!ask->has_max) return false;
    return ask->amount < 0 || __builtin_add_overflow(c->sum, ask->amount, &whole) ||
           whole > ask->amount_max;
}

static bool has_room(struct limit_table *t, const struct limit_ask *ask, uint64_t now_ms)
{
    static const struct counter none;
    struct counter *c = map_get(&t->by_key, key_text(&ask->key));
    if (c != NULL) advance(t, c, limit_bucket(now_ms, c->window_ms));
    return !is_over(c == NULL ? &none : c, ask);
}

enum err limit_count(struct limit_table *t, const struct limit_ask *ask, uint64_t now_ms,
                     struct limit_told *ret)
{
    /* Counters were dropped by a later clock than this: one made anew may not count in what they
     * knew. */
    if (now_ms < t->wheel.now_ms) now_ms = t->wheel.now_ms;
    if (ask->look_only) {
        *ret = (struct limit_told){.counted = has_room(t, ask, now_ms)};
        return ERR_OK;
    }
    bool is_known = map_get(&t->by_key, key_text(&ask->key)) != NULL;
    if (!is_known && t->counters.count >= t->count_max) return ERR_FULL;
    struct counter *c = counter_take(t, ask, now_ms);
    if (c == NULL) return ERR_FULL;
    uint64_t bucket = limit_bucket(now_ms, c->window_ms);
    bool is_behind =
        bucket < c->head; /* the clock of another reactor: it is as late as the newest here */
    if (is_behind) bucket = c->head;
    advance(t, c, bucket);
    *ret = (struct limit_told){.stamp_ms = is_behind ? limit_bucket_begin_ms(bucket, c->window_ms)
                                                     : now_ms};
    if (is_over(c, ask)) return ERR_OK;
    ret->counted = true;
    add(c, bucket, 1, ask->amount);
    return ERR_OK;
}

void limit_uncount(struct limit_table *t, const struct limit_ask *ask,
                   const struct limit_told *told)
{
    struct counter *c = map_get(&t->by_key, key_text(&ask->key));
    if (c == NULL || !told->counted) return;
    uint64_t bucket = limit_bucket(told->stamp_ms, c->window_ms);
    size_t at = place_of(bucket);
    if (!is_live(c, bucket) || c->counts[at] == 0) return;
    c->counts[at]--;
    c->count--;
    /* Of a sum that was cut nobody knows how much of it was this one's: it stays until it is old.
     */
    if (ask->amount <= 0 || c->sums == NULL || c->sum == INT64_MAX) return;
    int64_t amount = ask->amount < c->sums[at] ? ask->amount : c->sums[at];
    c->sums[at] -= amount;
    c->sum -= amount;
}

enum err limit_apply(struct limit_table *t, const struct limit_ask *ask,
                     const struct limit_told *told)
{
    struct counter *c = counter_take(t, ask, told->stamp_ms);
    if (c == NULL) return ERR_FULL;
    uint64_t bucket = limit_bucket(told->stamp_ms, c->window_ms);
    advance(t, c, bucket);
    if (is_live(c, bucket)) add(c, bucket, 1, ask->amount);
    return ERR_OK;
}

void limit_count_more(struct limit_table *t, const struct slot_key *key, uint64_t stamp_ms,
                      uint64_t requests)
{
    struct counter *c = map_get(&t->by_key, key_text(key));
    if (c == NULL) return;
    uint64_t bucket = limit_bucket(stamp_ms, c->window_ms);
    if (is_live(c, bucket)) add(c, bucket, requests, 0);
}

bool limit_table_prune(struct limit_table *t, uint64_t now_ms, size_t most)
{
    size_t dropped = 0;
    for (struct wheel_entry *due; dropped < most && (due = wheel_due(&t->wheel, now_ms)) != NULL;
         dropped++)
        drop(t, link_owner(due, struct counter, timer));
    return dropped > 0;
}

uint64_t limit_table_next_ms(const struct limit_table *t) { return wheel_next_ms(&t->wheel); }

/* ---- snapshots: key, window, head, then how far behind head, count and sum of each bucket that is
 * not empty, oldest first; little-endian. Head is the newest of these, so that two counters which
 * were counted alike are saved alike, however often they refused in between. ---- */

enum { COUNTER_HEAD = SLOT_KEY_BYTES + 16, COUNTER_BUCKET = 13 };

static void put_number(struct buf *out, uint64_t value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) buf_put_byte(out, (char)(value >> (8 * i)));
}

static uint64_t number_at(const char *from, size_t bytes)
{
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; i++) value |= (uint64_t)(uint8_t)from[i] << (8 * i);
    return value;
}

static int64_t sum_at(const struct counter *c, size_t at)
{
    return c->sums == NULL ? 0 : c->sums[at];
}

static bool is_filled(const struct counter *c, size_t at)
{
    return c->counts[at] > 0 || sum_at(c, at) > 0;
}

struct counter *limit_table_next(const struct limit_table *t, size_t *cursor)
{
    struct str key;
    void *value;
    while (map_next(&t->by_key, cursor, &key, &value)) {
        struct counter *c = value;
        if (c->count > 0 || c->sum > 0) return c;
    }
    return NULL;
}

void counter_put(struct buf *out, const struct counter *c)
{
    uint64_t newest = c->head;
    while (newest > 0 && c->head - newest < LIMIT_BUCKETS - 1 && !is_filled(c, place_of(newest)))
        newest--;
    buf_put(out, key_text(&c->key));
    put_number(out, c->window_ms, 8);
    put_number(out, newest, 8);
    for (uint64_t back = LIMIT_BUCKETS; back-- > 0;) {
        size_t at = place_of(newest - back);
        if (newest < back || !is_live(c, newest - back) || !is_filled(c, at)) continue;
        put_number(out, back, 1);
        put_number(out, c->counts[at], 4);
        put_number(out, (uint64_t)sum_at(c, at), 8);
    }
}

struct saved_bucket {
    uint64_t back;
    uint32_t count;
    int64_t sum;
};

static struct saved_bucket bucket_at(struct str bytes, size_t i)
{
    const char *from = bytes.bytes + i;
    return (struct saved_bucket){.back = (uint8_t)from[0],
                                 .count = (uint32_t)number_at(from + 1, 4),
                                 .sum = (int64_t)number_at(from + 5, 8)};
}

/* *ret_has_sums: some bucket has one. */
static bool is_sound(struct str bytes, uint64_t window_ms, uint64_t head, bool *ret_has_sums)
{
    if (window_ms == 0 || window_ms > limit_time_most_ms ||
        head / (LIMIT_BUCKETS - 1) > limit_time_most_ms / limit_window(window_ms))
        return false;
    uint64_t before = LIMIT_BUCKETS; /* they come oldest first, each once */
    int64_t sum = 0;
    for (size_t i = COUNTER_HEAD; i < bytes.size; i += COUNTER_BUCKET) {
        struct saved_bucket b = bucket_at(bytes, i);
        if (b.back >= before || b.back > head || b.sum < 0 ||
            __builtin_add_overflow(sum, b.sum, &sum))
            return false;
        before = b.back;
    }
    *ret_has_sums = sum > 0;
    return true;
}

enum err counter_load(struct limit_table *t, struct str bytes)
{
    struct slot_key key;
    bool has_sums;
    if (bytes.size < COUNTER_HEAD || (bytes.size - COUNTER_HEAD) % COUNTER_BUCKET != 0)
        return ERR_CORRUPT;
    memcpy(key.bytes, bytes.bytes, sizeof key.bytes);
    uint64_t window_ms = number_at(bytes.bytes + SLOT_KEY_BYTES, 8),
             head = number_at(bytes.bytes + SLOT_KEY_BYTES + 8, 8);
    if (!is_sound(bytes, window_ms, head, &has_sums)) return ERR_CORRUPT;
    if (map_get(&t->by_key, key_text(&key)) != NULL) return ERR_EXISTS;
    struct counter *c = counter_make(t, key, window_ms, head);
    if (c == NULL) return ERR_FULL;
    if (has_sums && (c->sums = slab_take(&t->sums)) == NULL) {
        drop(t, c);
        return ERR_FULL;
    }
    for (size_t i = COUNTER_HEAD; i < bytes.size; i += COUNTER_BUCKET) {
        struct saved_bucket b = bucket_at(bytes, i);
        size_t at = place_of(head - b.back);
        c->counts[at] = b.count;
        c->count += b.count;
        if (has_sums) c->sums[at] = b.sum;
        c->sum += b.sum;
    }
    return ERR_OK;
}

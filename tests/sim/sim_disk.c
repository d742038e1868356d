#include "sim/sim_disk.h"

#include <stdlib.h>

#include "base/check.h"

enum {
    SECTOR = 512,
    PAGE = 4096,
    NAME_BYTES = 32,
    FILES_OPEN = 64,
    NAMES = 64,
    CHANGES = 256,
    DUMMY_FILE = 1000
};

struct node { /* a file, with or without a name */
    char *live, *durable;
    uint64_t size, durable_size; /* the images hold `room` bytes, zeros beyond the size */
    uint64_t room;
    uint32_t *order; /* unsynced sectors in the order of their first write */
    size_t unsynced;
    uint8_t *is_unsynced; /* by sector */
    uint8_t *is_cached;   /* by page */
    unsigned uses;        /* names and open handles and changes */
};

struct entry {
    char name[NAME_BYTES];
    struct node *node;
};

struct names {
    struct entry all[NAMES];
    size_t count;
};

struct change { /* of the directory, not yet synced */
    enum { CHANGE_CREATE, CHANGE_RENAME, CHANGE_REMOVE } kind;
    char name[NAME_BYTES], to[NAME_BYTES];
    struct node *node;
};

struct sim_disk {
    struct disk disk;
    struct chance_source chance;
    struct sim_counts *counts;
    uint64_t capacity;
    struct names live, durable;
    struct change changes[CHANGES];
    size_t change_count;
    struct node *open[FILES_OPEN];
    uint64_t die_in;
    void (*died)(void *context);
    void *died_context;
    bool dead, locked;
};

uint64_t chance_next(struct chance_source *c)
{
    uint64_t z = c->state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

/* ---- nodes ---- */

static struct node *node_new(void)
{
    struct node *n = calloc(1, sizeof *n);
    check(n != NULL);
    return n;
}

static size_t pages(uint64_t bytes) { return (size_t)((bytes + PAGE - 1) / PAGE); }

static void node_room(struct node *n, uint64_t size)
{
    if (size <= n->room) return;
    uint64_t room = (size + SECTOR - 1) / SECTOR * SECTOR;
    char *live = calloc(1, room), *durable = calloc(1, room);
    uint32_t *order = calloc(room / SECTOR, sizeof *order);
    uint8_t *is_unsynced = calloc(room / SECTOR, 1), *is_cached = calloc(pages(room), 1);
    check(live != NULL && durable != NULL && order != NULL && is_unsynced != NULL &&
          is_cached != NULL);
    if (n->room > 0) {
        memcpy(live, n->live, n->room);
        memcpy(durable, n->durable, n->room);
        memcpy(order, n->order, n->unsynced * sizeof *order);
        memcpy(is_unsynced, n->is_unsynced, n->room / SECTOR);
        memcpy(is_cached, n->is_cached, pages(n->room));
    }
    free(n->live);
    free(n->durable);
    free(n->order);
    free(n->is_unsynced);
    free(n->is_cached);
    n->live = live;
    n->durable = durable;
    n->order = order;
    n->is_unsynced = is_unsynced;
    n->is_cached = is_cached;
    n->room = room;
}

static struct node *node_use(struct node *n)
{
    n->uses++;
    return n;
}

static void node_drop(struct node *n)
{
    check(n->uses > 0);
    if (--n->uses > 0) return;
    free(n->live);
    free(n->durable);
    free(n->order);
    free(n->is_unsynced);
    free(n->is_cached);
    free(n);
}

static void node_write(struct node *n, const char *bytes, size_t size, uint64_t offset)
{
    node_room(n, offset + size);
    memcpy(n->live + offset, bytes, size);
    if (offset + size > n->size) n->size = offset + size;
    for (uint64_t at = offset / SECTOR; at <= (offset + size - 1) / SECTOR; at++) {
        if (n->is_unsynced[at]) continue;
        n->is_unsynced[at] = 1;
        n->order[n->unsynced++] = (uint32_t)at;
    }
}

/* The pages that hold these bytes come into the cache; those that lie in `from` to `to` whole need
 * not be read for it. */
static void node_cache(struct sim_disk *s, struct node *n, uint64_t offset, size_t size,
                       uint64_t from, uint64_t to)
{
    for (uint64_t at = offset / PAGE; size > 0 && at <= (offset + size - 1) / PAGE; at++) {
        bool whole = at * PAGE >= from && (at + 1) * PAGE <= to;
        if (!n->is_cached[at] && !whole) s->counts->pages_read++;
        n->is_cached[at] = 1;
    }
}

static void node_sector_durable(struct node *n, uint64_t at)
{
    memcpy(n->durable + at * SECTOR, n->live + at * SECTOR, SECTOR);
    n->is_unsynced[at] = 0;
}

static void node_sync(struct node *n)
{
    for (size_t i = 0; i < n->unsynced; i++) node_sector_durable(n, n->order[i]);
    n->unsynced = 0;
    n->durable_size = n->size;
}

/* ---- names ---- */

static struct entry *names_find(const struct names *d, const char *name)
{
    for (size_t i = 0; i < d->count; i++)
        if (strcmp(d->all[i].name, name) == 0) return (struct entry *)&d->all[i];
    return NULL;
}

static void names_remove(struct names *d, const char *name)
{
    struct entry *e = names_find(d, name);
    if (e == NULL) return;
    node_drop(e->node);
    *e = d->all[--d->count];
}

static void name_copy(char to[NAME_BYTES], const char *name)
{
    size_t size = strlen(name);
    check(size < NAME_BYTES);
    memcpy(to, name, size + 1);
}

static void names_put(struct names *d, const char *name, struct node *n)
{
    node_use(n);
    names_remove(d, name);
    check(d->count < NAMES);
    name_copy(d->all[d->count].name, name);
    d->all[d->count++].node = n;
}

static void names_clear(struct names *d)
{
    while (d->count > 0) node_drop(d->all[--d->count].node);
}

static void change_apply(struct names *d, const struct change *c)
{
    switch (c->kind) {
    case CHANGE_CREATE: names_put(d, c->name, c->node); break;
    case CHANGE_RENAME:
        names_put(d, c->to, c->node);
        names_remove(d, c->name);
        break;
    case CHANGE_REMOVE: names_remove(d, c->name); break;
    }
}

static void change_make(struct sim_disk *s, struct change c)
{
    check(s->change_count < CHANGES);
    node_use(c.node);
    s->changes[s->change_count++] = c;
    change_apply(&s->live, &c);
}

static void changes_drop(struct sim_disk *s)
{
    while (s->change_count > 0) node_drop(s->changes[--s->change_count].node);
}

/* The first `count` of them reach the medium. */
static void changes_durable(struct sim_disk *s, size_t count)
{
    for (size_t i = 0; i < count; i++) change_apply(&s->durable, &s->changes[i]);
    changes_drop(s);
}

/* ---- dying ---- */

void sim_disk_die(struct sim_disk *s)
{
    if (s->dead) return;
    s->dead = true;
    s->die_in = 0;
    if (s->died != NULL) s->died(s->died_context);
}

/* True: this operation is the one that the disk dies in. */
static bool dies_now(struct sim_disk *s)
{
    if (s->dead || s->die_in == 0 || --s->die_in > 0) return false;
    sim_disk_die(s);
    return true;
}

/* ---- the operations ---- */

static struct node *node_of(struct sim_disk *s, int file)
{
    return file < 0 || file >= FILES_OPEN ? NULL : s->open[file];
}

static enum err sim_open(void *state, const char *name, bool create_new, int *ret_file)
{
    struct sim_disk *s = state;
    struct entry *e = names_find(&s->live, name);
    if (s->dead && (create_new || e == NULL)) {
        *ret_file = DUMMY_FILE;
        return ERR_OK;
    }
    if (create_new && e != NULL) return ERR_EXISTS;
    if (!create_new && e == NULL) return ERR_NOT_FOUND;
    int file = 0;
    while (file < FILES_OPEN && s->open[file] != NULL) file++;
    check(file < FILES_OPEN);
    *ret_file = file;
    if (create_new) {
        struct change c = {.kind = CHANGE_CREATE, .node = node_new()};
        name_copy(c.name, name);
        change_make(s, c);
        s->open[file] = node_use(c.node);
        (void)dies_now(s);
        return ERR_OK;
    }
    s->open[file] = node_use(e->node);
    return ERR_OK;
}

static void sim_close(void *state, int file)
{
    struct sim_disk *s = state;
    struct node *n = node_of(s, file);
    if (n == NULL) return;
    s->open[file] = NULL;
    node_drop(n);
}

static enum err sim_size(void *state, int file, uint64_t *ret_size)
{
    struct node *n = node_of(state, file);
    *ret_size = n == NULL ? 0 : n->size;
    return ERR_OK;
}

static enum err sim_read(void *state, int file, void *to, size_t size, uint64_t offset)
{
    struct node *n = node_of(state, file);
    if (n == NULL || offset + size > n->size) return ERR_END;
    memcpy(to, n->live + offset, size);
    node_cache(state, n, offset, size, 0, 0);
    return ERR_OK;
}

static enum err sim_write(void *state, int file, const void *from, size_t size, uint64_t offset)
{
    struct sim_disk *s = state;
    struct node *n = node_of(s, file);
    if (s->dead || n == NULL || size == 0) return ERR_OK;
    check(offset + size <= n->size); /* a journal's file never grows by a write */
    size_t part = size;
    if (s->die_in == 1) part = (size_t)chance_below(&s->chance, size + 1);
    node_cache(s, n, offset, part, offset, offset + part);
    if (part > 0) node_write(n, from, part, offset);
    (void)dies_now(s);
    return ERR_OK;
}

/* A cut inside a sync leaves some of it done. */
static enum err sim_sync(void *state, int file)
{
    struct sim_disk *s = state;
    struct node *n = node_of(s, file);
    if (s->dead || n == NULL) return ERR_OK;
    if (dies_now(s)) return ERR_OK;
    node_sync(n);
    return ERR_OK;
}

static uint64_t used_bytes(const struct sim_disk *s)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < s->live.count; i++) bytes += s->live.all[i].node->size;
    return bytes;
}

static enum err sim_fill(void *state, int file, uint64_t size)
{
    struct sim_disk *s = state;
    struct node *n = node_of(s, file);
    if (s->dead || n == NULL) return ERR_OK;
    if (used_bytes(s) + size > s->capacity) {
        s->counts->no_space++;
        return ERR_NO_SPACE;
    }
    node_room(n, size);
    memset(n->is_cached, 0, pages(n->room));
    if (dies_now(s)) {
        n->size = chance_below(&s->chance, size + 1);
        return ERR_OK;
    }
    n->size = n->durable_size = size;
    return ERR_OK;
}

static void sim_uncache(void *state, int file, uint64_t until)
{
    struct sim_disk *s = state;
    struct node *n = node_of(state, file);
    if (s->dead || n == NULL) return;
    check(until <= n->size);
    memset(n->is_cached, 0, (size_t)(until / PAGE)); /* a page that is left in part stays */
    for (size_t i = 0; i < n->unsynced; i++)         /* else memory is all that holds it */
        check((uint64_t)n->order[i] * SECTOR >= until);
}

static enum err sim_sync_directory(void *state)
{
    struct sim_disk *s = state;
    if (s->dead || dies_now(s)) return ERR_OK;
    changes_durable(s, s->change_count);
    return ERR_OK;
}

static enum err sim_rename(void *state, const char *from, const char *to)
{
    struct sim_disk *s = state;
    if (s->dead) return ERR_OK;
    struct entry *e = names_find(&s->live, from);
    if (e == NULL) return ERR_NOT_FOUND;
    struct change c = {.kind = CHANGE_RENAME, .node = e->node};
    name_copy(c.name, from);
    name_copy(c.to, to);
    change_make(s, c);
    (void)dies_now(s);
    return ERR_OK;
}

static enum err sim_remove(void *state, const char *name)
{
    struct sim_disk *s = state;
    if (s->dead) return ERR_OK;
    struct entry *e = names_find(&s->live, name);
    if (e == NULL) return ERR_NOT_FOUND;
    struct change c = {.kind = CHANGE_REMOVE, .node = e->node};
    name_copy(c.name, name);
    change_make(s, c);
    (void)dies_now(s);
    return ERR_OK;
}

static enum err sim_list(void *state, void (*each)(void *context, const char *name), void *context)
{
    struct sim_disk *s = state;
    for (size_t i = 0; i < s->live.count; i++) each(context, s->live.all[i].name);
    return ERR_OK;
}

static enum err sim_free_bytes(void *state, uint64_t *ret_free, uint64_t *ret_total)
{
    struct sim_disk *s = state;
    uint64_t used = used_bytes(s);
    *ret_total = s->capacity;
    *ret_free = used > s->capacity ? 0 : s->capacity - used;
    return ERR_OK;
}

static enum err sim_free_files(void *state, uint64_t *ret_free, uint64_t *ret_total)
{
    (void)state;
    *ret_free = *ret_total = 0; /* no bound */
    return ERR_OK;
}

static enum err sim_lock(void *state)
{
    struct sim_disk *s = state;
    if (s->locked) return ERR_EXISTS;
    s->locked = true;
    return ERR_OK;
}

static const struct disk sim_operations = {
    .open = sim_open,
    .close = sim_close,
    .size = sim_size,
    .read = sim_read,
    .write = sim_write,
    .sync = sim_sync,
    .fill = sim_fill,
    .reserve = sim_fill,
    .uncache = sim_uncache,
    .sync_directory = sim_sync_directory,
    .rename = sim_rename,
    .remove = sim_remove,
    .list = sim_list,
    .free_bytes = sim_free_bytes,
    .free_files = sim_free_files,
    .lock = sim_lock,
};

/* ---- lives ---- */

struct sim_disk *sim_disk_create(uint64_t seed, uint64_t capacity_bytes, struct sim_counts *counts)
{
    struct sim_disk *s = calloc(1, sizeof *s);
    check(s != NULL);
    s->disk = sim_operations;
    s->disk.state = s;
    s->chance.state = seed;
    s->capacity = capacity_bytes;
    s->counts = counts;
    return s;
}

struct disk *sim_disk_door(struct sim_disk *s) { return &s->disk; }

static void close_all(struct sim_disk *s)
{
    for (int i = 0; i < FILES_OPEN; i++) sim_close(s, i);
}

void sim_disk_destroy(struct sim_disk *s)
{
    if (s == NULL) return;
    close_all(s);
    changes_drop(s);
    names_clear(&s->live);
    names_clear(&s->durable);
    free(s);
}

struct sim_disk *sim_disk_copy(const struct sim_disk *s)
{
    struct sim_disk *to = sim_disk_create(s->chance.state, s->capacity, s->counts);
    for (size_t i = 0; i < s->live.count; i++) {
        const struct node *from = s->live.all[i].node;
        struct node *n = node_new();
        node_room(n, from->room);
        if (from->room > 0) memcpy(n->live, from->live, from->room);
        if (from->room > 0) memcpy(n->durable, from->live, from->room);
        n->size = n->durable_size = from->size;
        names_put(&to->live, s->live.all[i].name, n);
        names_put(&to->durable, s->live.all[i].name, n);
    }
    return to;
}

void sim_disk_die_in(struct sim_disk *s, uint64_t operations, void (*died)(void *context),
                     void *context)
{
    s->die_in = operations;
    s->died = died;
    s->died_context = context;
}

bool sim_disk_is_dead(const struct sim_disk *s) { return s->dead; }

static void revive(struct sim_disk *s)
{
    close_all(s);
    s->dead = s->locked = false;
    s->die_in = 0;
    s->died = NULL;
}

void sim_disk_kill(struct sim_disk *s)
{
    s->counts->kills++;
    revive(s);
}

static void tear(struct sim_disk *s, struct node *n, uint64_t at)
{
    enum { GRAIN = 32 };
    char *live = n->live + at * SECTOR, *durable = n->durable + at * SECTOR;
    uint64_t border = chance_below(&s->chance, SECTOR);
    bool grains = chance_in(&s->chance, 2);
    for (uint64_t i = 0; i < SECTOR; i += grains ? GRAIN : 1) {
        bool is_new = grains ? chance_in(&s->chance, 2) : i < border;
        if (is_new) memcpy(durable + i, live + i, grains ? GRAIN : 1);
    }
    if (memcmp(durable, live, SECTOR) != 0) s->counts->torn++;
    n->is_unsynced[at] = 0;
}

/* What becomes of one file's unsynced sectors: from "all kept" over "a prefix" to "each by chance".
 */
static void node_power(struct sim_disk *s, struct node *n)
{
    uint64_t manner = chance_below(&s->chance, 6);
    size_t prefix = (size_t)chance_below(&s->chance, n->unsynced + 1);
    bool any_lost = false;
    for (size_t i = 0; i < n->unsynced; i++) {
        uint64_t at = n->order[i];
        uint64_t fate = manner == 0   ? 1
                        : manner == 1 ? 0
                        : manner == 2 ? i < prefix
                                      : chance_below(&s->chance, manner * 2);
        if (manner == 5) fate = fate == 0 ? 0 : 1; /* holes in what was mostly kept */
        if (manner == 2 && i == prefix) fate = 2;
        if (fate == 0) {
            any_lost = true;
            s->counts->lost++;
            n->is_unsynced[at] = 0;
        } else if (fate == 2) {
            tear(s, n, at);
        } else {
            node_sector_durable(n, at);
            s->counts->kept++;
            if (any_lost) s->counts->reordered++;
        }
    }
    n->unsynced = 0;
    if (n->room > 0) memset(n->is_cached, 0, pages(n->room));
    if (n->size > n->durable_size && chance_in(&s->chance, 2)) n->durable_size = n->size;
    n->size = n->durable_size;
    if (n->room > 0) memcpy(n->live, n->durable, n->room);
}

void sim_disk_power(struct sim_disk *s)
{
    s->counts->cuts++;
    revive(s);
    size_t survive = (size_t)chance_below(&s->chance, s->change_count + 1);
    s->counts->names_lost += s->change_count - survive;
    changes_durable(s, survive);
    names_clear(&s->live);
    for (size_t i = 0; i < s->durable.count; i++) {
        names_put(&s->live, s->durable.all[i].name, s->durable.all[i].node);
        node_power(s, s->durable.all[i].node);
    }
}

/* ---- damage ---- */

static struct node *named(const struct sim_disk *s, const char *name)
{
    struct entry *e = names_find(&s->live, name);
    return e == NULL ? NULL : e->node;
}

bool sim_disk_damage(struct sim_disk *s, const char *name, uint64_t offset, const void *bytes,
                     size_t size)
{
    struct node *n = named(s, name);
    if (n == NULL || offset + size > n->size) return false;
    memcpy(n->live + offset, bytes, size);
    memcpy(n->durable + offset, bytes, size);
    return true;
}

bool sim_disk_truncate(struct sim_disk *s, const char *name, uint64_t size)
{
    struct node *n = named(s, name);
    if (n == NULL || size > n->size) return false;
    memset(n->live + size, 0, n->room - size);
    memset(n->durable + size, 0, n->room - size);
    n->size = n->durable_size = size;
    return true;
}

bool sim_disk_forget(struct sim_disk *s, const char *name)
{
    if (named(s, name) == NULL) return false;
    names_remove(&s->live, name);
    names_remove(&s->durable, name);
    return true;
}

void sim_disk_set_capacity(struct sim_disk *s, uint64_t bytes) { s->capacity = bytes; }

const char *sim_disk_bytes(const struct sim_disk *s, const char *name, uint64_t *ret_size)
{
    struct node *n = named(s, name);
    if (n == NULL) return NULL;
    *ret_size = n->size;
    return n->live;
}

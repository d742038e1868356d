#include "engine/control/takeover.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/file.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/time.h"

enum {
    CALL_SECONDS = 30,
    STEPS_PER_TURN = 64, /* each may be a record */
    REASON_BYTES_MAX = 4 * 1000,
    NAME_BYTES_MAX = 4 * LIMIT_ID_CHARACTERS,
    PAGE_ARENA_FIRST = 64 << 10,
    PAGE_ARENA_MOST = 128 << 20, /* a page in the reader's tree */
    STEP_ARENA_FIRST = 4 << 10,
    STEP_ARENA_MOST = 64 << 10,
};

struct suspension { /* of the present page */
    unsigned slot;
    struct str tenant, actor, by, reason, event_id;
    uint64_t since_ms;
};

struct takeover {
    struct hasher *hasher;
    struct arena arena; /* of the page */
    struct suspension *page;
    size_t count;
    /* Rises with each page. A reactor looks into the page from then on until it has reported that
     * its share is done. */
    _Atomic uint64_t number;
    atomic_uint shares_left;
    _Atomic enum err failure; /* of a reactor's share */
    sem_t done;               /* no share is left, or it is to stop */
    atomic_bool stopping;
    pthread_mutex_t mutex; /* guards: */
    char trouble[320];     /* "": none yet */
};

/* ---- the mark ---- */

static void mark_path(const struct engine *e, char to[4096])
{
    snprintf(to, 4096, "%s/engine/suspensions-due", e->config.data);
}

/* Makes the mark, or its removal, durable. */
static bool names_sync(const struct engine *e)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/engine", e->config.data);
    return folder_sync(path);
}

enum err takeover_open(struct engine *e, bool is_new, struct fault *f)
{
    const struct str text =
        STR("This engine does not have the open suspensions of the platform yet.\n");
    char path[4096];
    struct stat found;
    mark_path(e, path);
    bool is_marked = stat(path, &found) == 0;
    if (!is_marked && is_new) {
        is_marked = (file_make(path, text) || errno == EEXIST) && names_sync(e);
        if (!is_marked) return fault_set(f, ERR_IO, "", "%s: %s", path, strerror(errno));
    }
    if (!is_marked || e->config.platform_url[0] == '\0') return ERR_OK;
    struct takeover *t = e->takeover = calloc(1, sizeof *t);
    check(t != NULL);
    t->hasher = hasher_create();
    arena_init(&t->arena, PAGE_ARENA_FIRST, PAGE_ARENA_MOST);
    sem_init(&t->done, 0, 0);
    pthread_mutex_init(&t->mutex, NULL);
    atomic_store(&e->takeover_due, true);
    return ERR_OK;
}

static void mark_remove(const struct engine *e)
{
    char path[4096];
    mark_path(e, path);
    if (unlink(path) != 0 || !names_sync(e))
        log_text(LOG_WARNING, "takeover_mark", "%s: %s; the next start asks the platform again",
                 path, strerror(errno));
}

void takeover_destroy(struct engine *e)
{
    struct takeover *t = e->takeover;
    if (t == NULL) return;
    hasher_destroy(t->hasher);
    arena_fini(&t->arena);
    sem_destroy(&t->done);
    pthread_mutex_destroy(&t->mutex);
    free(t);
    e->takeover = NULL;
}

/* ---- what it waits for ---- */

static void note_trouble(struct takeover *t, const char *text)
{
    pthread_mutex_lock(&t->mutex);
    snprintf(t->trouble, sizeof t->trouble, "%s", text);
    pthread_mutex_unlock(&t->mutex);
}

enum err takeover_fault(const struct engine *e, struct fault *f)
{
    check(e->takeover != NULL);
    struct takeover *t = e->takeover;
    char trouble[sizeof t->trouble];
    pthread_mutex_lock(&t->mutex);
    memcpy(trouble, t->trouble, sizeof trouble);
    pthread_mutex_unlock(&t->mutex);
    return fault_set(f, ERR_STARTING, "",
                     "this engine's journal is new, and it lets no agent in before it has the open "
                     "suspensions of the platform: %s",
                     trouble[0] != '\0' ? trouble : "it is about to ask for them");
}

/* ---- a reactor's share ---- */

/* The page may be read from here to share_done(): its maker waits for all shares. */
static void takeover_share_check(const struct takeover_share *share, const struct takeover *t)
{
    check(!share->is_open ||
          share->number == atomic_load_explicit(&t->number, memory_order_relaxed));
    check(!share->is_open || atomic_load_explicit(&t->shares_left, memory_order_relaxed) > 0);
    check(!share->is_open || share->next <= t->count);
}

static struct call call_of(struct engine_reactor *w, const struct suspension *n,
                           struct arena *arena)
{
    struct call c = {.kind = CALL_SUSPEND,
                     .origin = (uint16_t)w->index,
                     .slot = (uint16_t)n->slot,
                     .now_ms = world_now_ms(),
                     .arena = arena,
                     .tenant = n->tenant};
    c.id = id_make(c.now_ms, &w->api.chance);
    c.requester.owner = n->by;
    c.actor.actor = n->actor;
    c.actor.reason = n->reason;
    c.actor.since_ms = n->since_ms;
    c.actor.since_event = n->event_id;
    return c;
}

/* False: there is no room for its record now. */
static bool take_one(struct engine_reactor *w, const struct suspension *n)
{
    struct takeover_share *share = &w->takeover;
    check(slot_owner(n->slot, w->engine->reactor_count) == w->index);
    struct arena arena;
    arena_init(&arena, STEP_ARENA_FIRST, STEP_ARENA_MOST);
    struct call c = call_of(w, n, &arena);
    enum err err = owner_take_over(w, &c);
    arena_fini(&arena);
    if (err == ERR_FULL) return false;
    if (err != ERR_OK) atomic_store(&w->engine->takeover->failure, err);
    if (c.block > share->block) share->block = c.block;
    if (w->owner.place > share->place) share->place = w->owner.place;
    return true;
}

static void share_done(struct engine_reactor *w)
{
    struct takeover *t = w->engine->takeover;
    takeover_share_check(&w->takeover, t);
    check(w->takeover.is_open && w->takeover.next == t->count);
    w->takeover.is_open = false;
    if (atomic_fetch_sub(&t->shares_left, 1) == 1) sem_post(&t->done);
}

bool takeover_turn(struct engine_reactor *w)
{
    struct takeover *t = w->engine->takeover;
    struct takeover_share *share = &w->takeover;
    if (t == NULL || !engine_owns_state(w->engine)) return false;
    uint64_t number = atomic_load_explicit(&t->number, memory_order_acquire);
    if (number != share->number)
        *share = (struct takeover_share){.number = number, .is_open = true};
    if (!share->is_open) return false;
    takeover_share_check(share, t);
    unsigned taken = 0;
    for (; share->next < t->count && taken < STEPS_PER_TURN; share->next++) {
        const struct suspension *n = &t->page[share->next];
        if (slot_owner(n->slot, w->engine->reactor_count) != w->index) continue;
        if (!take_one(w, n)) return taken > 0; /* else the journal writer wakes it */
        taken++;
    }
    if (taken > 0 || share->next < t->count) return true;
    bool is_durable = share->block <= w->owner.durable;
    bool is_seen = share->place == 0 || revoked_log_seen(w->engine->revoked, share->place);
    if (is_durable && is_seen) share_done(w);
    return false;
}

/* ---- the feed's thread ---- */

void takeover_stop(struct engine *e)
{
    if (e->takeover == NULL) return;
    atomic_store(&e->takeover->stopping, true);
    sem_post(&e->takeover->done);
}

static enum err share_out(struct engine *e, struct fault *f)
{
    struct takeover *t = e->takeover;
    if (t->count == 0) return ERR_OK;
    check(atomic_load(&t->shares_left) == 0);
    atomic_store(&t->failure, ERR_OK);
    atomic_store(&t->shares_left, e->reactor_count);
    atomic_fetch_add_explicit(&t->number, 1, memory_order_release);
    for (unsigned i = 0; i < e->reactor_count; i++) reactor_wake(e->reactors[i].reactor);
    while (atomic_load(&t->shares_left) > 0) {
        if (atomic_load(&t->stopping)) return fault_plain(f, ERR_CLOSED);
        while (sem_wait(&t->done) != 0 && errno == EINTR) {
        }
    }
    enum err err = atomic_load(&t->failure);
    return err == ERR_OK
               ? ERR_OK
               : fault_set(f, err, "", "a suspension cannot be recorded: %s", err_sentence(err));
}

/* False: no request can name such an actor. */
static bool read_one(struct takeover *t, const struct json *from, struct suspension *ret)
{
    *ret = (struct suspension){.tenant = json_text(from, STR("tenant_id")),
                               .actor = json_text(from, STR("actor")),
                               .by = json_text(from, STR("suspended_by")),
                               .reason = json_text(from, STR("reason")),
                               .event_id = json_text(from, STR("event_id"))};
    bool is_right = ret->tenant.size > 0 && ret->actor.size > 0 &&
                    str_code_points(ret->tenant) <= LIMIT_ID_CHARACTERS &&
                    str_code_points(ret->actor) <= LIMIT_ID_CHARACTERS &&
                    time_read(json_text(from, STR("suspended_at")), &ret->since_ms);
    if (!is_right) return false;
    ret->by = str_cut(ret->by, NAME_BYTES_MAX);
    ret->reason = str_cut(ret->reason, REASON_BYTES_MAX);
    ret->event_id = str_cut(ret->event_id, NAME_BYTES_MAX);
    ret->slot = slot_of_subject(t->hasher, ret->tenant, false, ret->actor);
    check(ret->slot < LIMIT_SLOTS);
    return true;
}

static enum err read_page(struct takeover *t, struct str body, uint64_t *ret_next, struct fault *f)
{
    struct json *root;
    check(atomic_load(&t->shares_left) == 0); /* no reactor reads the page any more */
    arena_reset(&t->arena);
    t->count = 0;
    enum err err = json_read(body, NULL, &t->arena, &root, f);
    const struct json *list = err == ERR_OK ? json_get(root, STR("suspensions")) : NULL;
    if (err == ERR_OK && !json_is_array(list))
        err = fault_set(f, ERR_UPSTREAM_FAILED, "", "the platform's answer has no suspensions");
    if (err != ERR_OK) return err;
    t->page = arena_array(&t->arena, struct suspension, list->count + 1);
    if (t->page == NULL) return fault_plain(f, ERR_BODY_TOO_LARGE);
    for (const struct json *n = list->child; n != NULL; n = n->next) {
        if (read_one(t, n, &t->page[t->count]))
            t->count++;
        else
            log_text(LOG_WARNING, "suspension_skipped",
                     "a suspension of the platform names no actor that a request can have");
    }
    *ret_next = json_u64(root, STR("next_cursor"), 0);
    return ERR_OK;
}

static enum err ask(struct engine *e, struct http_client *platform, const char *authorization,
                    uint64_t *cursor, struct fault *f)
{
    char target[128];
    struct buf to = buf_over(target, sizeof target);
    buf_printf(&to, "/api/v1/suspensions?open=true&limit=%d&cursor=%" PRIu64, LIMIT_PAGE, *cursor);
    check(!to.overflow && takeover_is_due(e));
    struct http_call call = {.method = "GET",
                             .target = buf_view(&to),
                             .timeout_ms = CALL_SECONDS * 1000,
                             .reply_max = LIMIT_REPLY_BYTES};
    call.headers[call.header_count++] =
        (struct http_header){STR("Authorization"), str_from(authorization)};
    struct http_answer answer;
    enum err err = http_call(platform, &call, true, &answer, f);
    if (err != ERR_OK) return err;
    if (answer.status == 404)
        return fault_set(f, ERR_UPSTREAM_FAILED, "",
                         "the platform does not have GET /api/v1/suspensions, because it is of an "
                         "earlier version: upgrade it first");
    if (answer.status != 200)
        return fault_set(f, ERR_UPSTREAM_FAILED, "",
                         "the platform answers GET /api/v1/suspensions with status %d: %.*s",
                         answer.status, (int)(answer.body.size < 150 ? answer.body.size : 150),
                         answer.body.size == 0 ? "" : answer.body.bytes);
    uint64_t before = *cursor;
    err = read_page(e->takeover, answer.body, cursor, f);
    if (err != ERR_OK || *cursor == 0 || *cursor > before) return err;
    return fault_set(f, ERR_UPSTREAM_FAILED, "", "the platform's next_cursor does not rise");
}

static enum err take_all(struct engine *e, struct http_client *platform, const char *authorization,
                         uint64_t *ret_count, struct fault *f)
{
    uint64_t cursor = 0;
    enum err err;
    *ret_count = 0;
    do {
        err = ask(e, platform, authorization, &cursor, f);
        *ret_count += e->takeover->count;
        if (err == ERR_OK && *ret_count > LIMIT_SUSPENDED)
            err = fault_set(f, ERR_OVERLOADED, "",
                            "the platform has more than %d open suspensions, the most of one "
                            "engine: resume actors that are gone, at an engine that runs",
                            LIMIT_SUSPENDED);
        if (err == ERR_OK) err = share_out(e, f);
    } while (err == ERR_OK && cursor != 0);
    return err;
}

enum err takeover_run(struct engine *e, struct http_client *platform, const char *authorization,
                      struct fault *f)
{
    check(takeover_is_due(e) && platform != NULL);
    struct takeover *t = e->takeover;
    uint64_t count;
    note_trouble(t, "they are being taken over");
    enum err err = take_all(e, platform, authorization, &count, f);
    if (err != ERR_OK) {
        note_trouble(t, f->text);
        return err;
    }
    mark_remove(e);
    log_text(LOG_INFO, "suspensions_taken_over",
             "%" PRIu64 " open suspensions of the platform hold at this engine", count);
    atomic_store_explicit(&e->takeover_due, false, memory_order_release);
    return ERR_OK;
}

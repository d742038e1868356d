/* followers.c - the engines, their rows in the store, and the revocations that wait for them.
 *
 * A revocation answers when no engine is behind, or after REVOKE_WAIT_MS with the names of the
 * engines that are. A silent engine counts as behind: it may be cut off, and still decide with the
 * old bundle. */
#include "platform/followers.h"

#include "base/log.h"
#include "platform/platform.h"

enum {
    /* engines take up a revision at the same time: one transaction for all of them */
    NOTE_AFTER_MS = 20,
    NOTE_AGAIN_MS = 60000, /* how often an unchanged engine is written again as alive */
    LOOK_EVERY_MS = 100,
    REVOKE_WAIT_MS = 1000,
};

static struct str node_of(const struct follower *f) { return str_of(f->node, f->node_size); }

static struct follower *find(struct followers *all, struct str node)
{
    for (size_t i = 0; i < all->count; i++)
        if (str_equal(node_of(&all->all[i]), node)) return &all->all[i];
    return NULL;
}

static struct follower *find_or_add(struct followers *all, struct str node)
{
    struct follower *f = find(all, node);
    if (f != NULL) return f;
    f = &all->all[0];
    if (all->count < FOLLOWERS_MAX)
        f = &all->all[all->count++];
    else /* the engine that was silent the longest makes room */
        for (size_t i = 1; i < FOLLOWERS_MAX; i++)
            if (all->all[i].seen_at < f->seen_at) f = &all->all[i];
    *f = (struct follower){.node_size = node.size};
    memcpy(f->node, node.bytes, node.size);
    return f;
}

/* ---- the voices of an engine ---- */

/* The voice of this key. A new key replaces the voice that was silent the longest. */
static struct follower_voice *voice_of(struct follower *f, struct id key)
{
    struct follower_voice *v = &f->voices[0];
    for (size_t i = 0; i < FOLLOWER_VOICES; i++) {
        if (f->voices[i].heard_at != 0 && id_equal(f->voices[i].key, key)) return &f->voices[i];
        if (f->voices[i].heard_at < v->heard_at) v = &f->voices[i];
    }
    *v = (struct follower_voice){.key = key};
    return v;
}

/* A voice counts only while its key holds: after the end of a key, its engine has another one. */
static bool is_heard(const struct platform *p, const struct follower_voice *v, uint64_t now_ms)
{
    return v->heard_at != 0 && v->heard_at + FOLLOWER_VOICE_MS >= now_ms &&
           platform_key_holds(p, v->key) == ERR_OK;
}

/* Counts the valid voices of the engine, and finds the oldest revision among them. */
static size_t listen_to(const struct platform *p, const struct follower *f, uint64_t now_ms,
                        struct revision *ret_oldest)
{
    size_t count = 0;
    ret_oldest->number = UINT64_MAX;
    for (size_t i = 0; i < FOLLOWER_VOICES; i++) {
        const struct follower_voice *v = &f->voices[i];
        if (!is_heard(p, v, now_ms)) continue;
        count++;
        if (v->revision.number < ret_oldest->number) *ret_oldest = v->revision;
    }
    return count;
}

/* Two keys that ask in turn are two clients: an engine that got a new key does not return to its
 * old one. */
static void tell_shared(struct follower *f, const struct follower_voice *back)
{
    char text[ID_TEXT + 1] = "", other[ID_TEXT + 1] = "", node[NODE_BYTES_MAX + 1] = "";
    if (f->is_shared_told) return;
    f->is_shared_told = true;
    id_write("key_", back->key, text);
    id_write("key_", f->latest->key, other);
    memcpy(node, f->node, f->node_size);
    log_line(LOG_WARNING, "node_shared", "node", node, "key", text, "other", other, "why",
             "two keys ask for the bundle under this node name: two engines share it, or another "
             "client has a key for it; revocations wait for the older of their two revisions",
             NULL);
}

static void hear(struct platform *p, struct follower *f, struct id key,
                 const struct revision *revision)
{
    uint64_t now_ms = world_now_ms();
    struct follower_voice *v = voice_of(f, key);
    bool comes_back = v->heard_at != 0 && f->latest != NULL && f->latest != v;
    v->revision = *revision;
    v->heard_at = f->seen_at = now_ms;
    struct revision oldest;
    size_t count = listen_to(p, f, now_ms, &oldest);
    if (count > 0) f->revision = oldest; /* no voice: the key has ended since it asked */
    if (count > 1 && comes_back) tell_shared(f, v);
    if (count == 1) f->is_shared_told = false;
    f->latest = v;
}

/* ---- the engines that are behind ---- */

/* Appends the names of the engines that do not run this revision yet, separated by commas. Returns
 * how many there are. `out` may be a buffer without room. */
static size_t put_behind(const struct platform *p, uint64_t revision, struct buf *out)
{
    size_t count = 0;
    uint64_t now_ms = world_now_ms();
    for (size_t i = 0; i < p->followers.count; i++) {
        const struct follower *f = &p->followers.all[i];
        if (f->revision.number >= revision || f->seen_at + FOLLOWER_KEEP_MS < now_ms) continue;
        if (count++ > 0) buf_put_byte(out, ',');
        json_put_string(out, node_of(f));
    }
    return count;
}

static void revoke_answer(struct job *j)
{
    link_remove(&j->link);
    loop_timer_stop(j->platform->loop, &j->timer);
    /* A rotation has the new key in its reply: reopen the closing brace and append. */
    bool rotates = j->reply.size > 0;
    if (rotates) j->reply.size--;
    buf_put(&j->reply, rotates ? STR(",\"behind\":[") : STR("{\"behind\":["));
    put_behind(j->platform, j->revision, &j->reply);
    buf_put(&j->reply, rotates ? STR("]}") : STR("],\"revoked\":true}"));
    job_answer(j);
}

static void revoke_due(struct loop_timer *t) { revoke_answer(link_owner(t, struct job, timer)); }

static bool revoke_is_seen(struct job *j)
{
    struct buf nowhere = {0};
    return put_behind(j->platform, j->revision, &nowhere) == 0;
}

/* Answers the revocations for which the last engine has taken up the revision. */
static void recheck(struct platform *p)
{
    list_each (&p->followers.waits, k, following) {
        struct job *j = link_owner(k, struct job, link);
        if (revoke_is_seen(j)) revoke_answer(j);
    }
}

/* ---- into the store ---- */

struct rows {
    struct follower_row list[FOLLOWERS_MAX];
    size_t count;
};

static bool is_news(const struct follower *f)
{
    return f->noted_at == 0 || !revision_equal(&f->revision, &f->noted_revision) ||
           f->seen_at >= f->noted_at + NOTE_AGAIN_MS;
}

static void note_work(struct job *j, struct store *s)
{
    const struct rows *rows = j->detail;
    j->err = follower_store_note(s, rows->list, rows->count, j->actor.now_ms, &j->fault);
}

static void note_due(struct loop_timer *t);

static void note_soon(struct platform *p)
{
    if (p->followers.is_noting || p->draining) return;
    p->followers.is_noting = true;
    loop_timer_start(p->loop, &p->followers.note, NOTE_AFTER_MS, note_due);
}

static void note_news(struct platform *p)
{
    for (size_t i = 0; i < p->followers.count; i++)
        if (is_news(&p->followers.all[i])) {
            note_soon(p);
            return;
        }
}

/* A failed write shows in health. The next tick tries again. */
static void note_done(struct job *j)
{
    struct platform *p = j->platform;
    const struct rows *rows = j->detail;
    p->followers.is_noting = false;
    for (size_t i = 0; j->err == ERR_OK && i < rows->count; i++) {
        struct follower *f = find(&p->followers, rows->list[i].node);
        if (f == NULL) continue; /* it was evicted meanwhile */
        f->noted_revision = rows->list[i].revision;
        f->noted_at = rows->list[i].seen_at;
    }
    if (j->err == ERR_OK) note_news(p);
    job_destroy(j);
}

static void note_due(struct loop_timer *t)
{
    struct platform *p = link_owner(t, struct platform, followers.note);
    struct job *j = job_create(p, NULL, note_work);
    struct rows *rows = job_detail(j, struct rows);
    for (size_t i = 0; i < p->followers.count; i++) {
        const struct follower *f = &p->followers.all[i];
        if (is_news(f))
            rows->list[rows->count++] =
                (struct follower_row){job_copy(j, node_of(f)), f->revision, f->seen_at};
    }
    j->done = note_done;
    if (rows->count > 0 && job_queue(j, QUEUE_WRITER)) return;
    p->followers.is_noting = false;
    job_destroy(j);
}

void followers_tick(struct platform *p) { note_news(p); }

void followers_stop(struct platform *p)
{
    loop_timer_stop(p->loop, &p->followers.look);
    loop_timer_stop(p->loop, &p->followers.note);
    note_due(&p->followers.note);
}

void followers_saw(struct platform *p, struct str node, struct id key,
                   const struct revision *revision)
{
    struct follower *f = find_or_add(&p->followers, node);
    hear(p, f, key, revision);
    if (is_news(f)) note_soon(p);
    recheck(p);
}

void followers_waited(struct platform *p, struct str node, struct id key)
{
    struct follower *f = find(&p->followers, node);
    if (f != NULL) voice_of(f, key)->heard_at = world_now_ms();
}

/* ---- from the store ---- */

static bool has_row(const struct follower_row *rows, size_t count, struct str node)
{
    for (size_t i = 0; i < count; i++)
        if (str_equal(rows[i].node, node)) return true;
    return false;
}

/* The last one takes its place. */
static void take_out(struct followers *all, struct follower *f)
{
    struct follower *last = &all->all[--all->count];
    if (f == last) return;
    *f = *last;
    if (last->latest != NULL) f->latest = f->voices + (last->latest - last->voices);
}

/* Another platform has removed an engine's row if this one wrote it, and it is gone. An engine that
 * still asks here stays. */
static void drop_removed(struct platform *p, const struct follower_row *rows, size_t count)
{
    uint64_t now_ms = world_now_ms();
    for (size_t i = p->followers.count; i-- > 0;) {
        struct follower *f = &p->followers.all[i];
        bool is_silent = f->seen_at + FOLLOWER_VOICE_MS < now_ms;
        if (f->noted_at != 0 && is_silent && !has_row(rows, count, node_of(f)))
            take_out(&p->followers, f);
    }
}

/* Takes the rows of the store. */
static void learn(struct platform *p, const struct follower_row *rows, size_t count)
{
    drop_removed(p, rows, count);
    for (size_t i = 0; i < count; i++) {
        const struct follower_row *row = &rows[i];
        struct revision oldest;
        if (row->node.size > NODE_BYTES_MAX) continue;
        struct follower *f = find_or_add(&p->followers, row->node);
        if (row->revision.number <= f->revision.number && row->seen_at <= f->seen_at) continue;
        /* The engine now asks another platform, which has newer information. */
        f->revision = f->noted_revision = row->revision;
        f->noted_at = row->seen_at;
        if (row->seen_at > f->seen_at) f->seen_at = row->seen_at;
        /* Except if two clients ask here under this name: then the older revision counts. */
        if (listen_to(p, f, world_now_ms(), &oldest) > 1 && oldest.number < f->revision.number)
            f->revision = oldest;
    }
}

static void look_work(struct job *j, struct store *s)
{
    struct rows *rows = j->detail;
    j->err =
        follower_store_list(s, j->actor.now_ms, &j->arena, rows->list, &rows->count, &j->fault);
}

/* Reads the store repeatedly while revocations wait. */
static void look(struct platform *p);

static void look_done(struct job *j)
{
    struct platform *p = j->platform;
    const struct rows *rows = j->detail;
    p->followers.is_looking = false;
    if (j->err == ERR_OK) learn(p, rows->list, rows->count);
    job_destroy(j);
    recheck(p);
    look(p);
}

static void look_due(struct loop_timer *t)
{
    struct platform *p = link_owner(t, struct platform, followers.look);
    struct job *j = job_create(p, NULL, look_work);
    (void)job_detail(j, struct rows);
    j->done = look_done;
    if (job_queue(j, QUEUE_READER)) return;
    job_destroy(j);
    p->followers.is_looking = false;
    look(p);
}

static void look(struct platform *p)
{
    if (p->followers.is_looking || p->draining || list_is_empty(&p->followers.waits)) return;
    p->followers.is_looking = true;
    loop_timer_start(p->loop, &p->followers.look, LOOK_EVERY_MS, look_due);
}

/* ---- revocations ---- */

void followers_await(struct job *j, const struct follower_row *known, size_t count)
{
    struct platform *p = j->platform;
    learn(p, known, count);
    list_append(&p->followers.waits, &j->link);
    loop_timer_start(p->loop, &j->timer, REVOKE_WAIT_MS, revoke_due);
    if (p->draining || revoke_is_seen(j))
        revoke_answer(j);
    else
        look(p);
}

void followers_remove(struct platform *p, struct str node)
{
    struct follower *f = find(&p->followers, node);
    if (f == NULL) return;
    take_out(&p->followers, f);
    recheck(p);
}

void followers_forget(struct platform *p, uint64_t lost_revision)
{
    static const char why[] =
        "the store went back to an older state while this revocation waited for engines, "
        "and may have lost it: check the key, and revoke it again";
    p->bundle_tags = (struct bundle_tags){0};
    for (size_t i = 0; i < p->followers.count; i++) {
        struct follower *f = &p->followers.all[i];
        f->revision = f->noted_revision = (struct revision){0};
        f->noted_at = 0;
        for (size_t v = 0; v < FOLLOWER_VOICES; v++) f->voices[v].revision = f->revision;
    }
    list_each (&p->followers.waits, k, following) {
        struct job *j = link_owner(k, struct job, link);
        if (j->revision > lost_revision) continue; /* it was made after the loss */
        link_remove(&j->link);
        loop_timer_stop(p->loop, &j->timer);
        job_refuse(j, ERR_STORE_UNAVAILABLE, why);
    }
}

void followers_drain(struct platform *p)
{
    list_each (&p->followers.waits, k, following) revoke_answer(link_owner(k, struct job, link));
}

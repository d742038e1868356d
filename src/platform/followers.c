/* followers.c - the engines, what the store has of them, and revocations that wait for them.
 *
 * A revocation answers as soon as nobody is behind, or after REVOKE_WAIT_MS with the names of
 * those who are. One that is silent is behind for as long as nobody speaks for it: it may be cut
 * off, and go on deciding by what it has. */
#include "platform/followers.h"

#include "base/log.h"
#include "platform/platform.h"

enum {
    /* engines take a revision up all at once: one transaction for them */
    NOTE_AFTER_MS = 20,
    NOTE_AGAIN_MS = 3600 * 1000, /* who says nothing new is still there */
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
    else /* whoever was silent the longest makes room */
        for (size_t i = 1; i < FOLLOWERS_MAX; i++)
            if (all->all[i].seen_at < f->seen_at) f = &all->all[i];
    *f = (struct follower){.node_size = node.size};
    memcpy(f->node, node.bytes, node.size);
    return f;
}

/* ---- who speaks for one ---- */

/* Whoever has this key; a new one takes the place of who was silent the longest. */
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

/* A key that has ended speaks for nobody: its engine has another one now. */
static bool is_heard(const struct platform *p, const struct follower_voice *v, uint64_t now_ms)
{
    return v->heard_at != 0 && v->heard_at + FOLLOWER_VOICE_MS >= now_ms &&
           platform_key_holds(p, v->key) == ERR_OK;
}

/* How many speak for it now; the oldest revision that one of them runs. */
static size_t listen_to(const struct platform *p, const struct follower *f, uint64_t now_ms,
                        uint64_t *ret_oldest)
{
    size_t count = 0;
    *ret_oldest = UINT64_MAX;
    for (size_t i = 0; i < FOLLOWER_VOICES; i++) {
        const struct follower_voice *v = &f->voices[i];
        if (!is_heard(p, v, now_ms)) continue;
        count++;
        if (v->revision < *ret_oldest) *ret_oldest = v->revision;
    }
    return count;
}

/* An engine that was given another key does not come back with the one before. */
static void tell_shared(struct follower *f, const struct follower_voice *back)
{
    char text[ID_TEXT + 1] = "", other[ID_TEXT + 1] = "", node[NODE_BYTES_MAX + 1] = "";
    if (f->is_shared_told) return;
    f->is_shared_told = true;
    id_write("key_", back->key, text);
    id_write("key_", f->latest->key, other);
    memcpy(node, f->node, f->node_size);
    log_line(LOG_WARNING, "node_shared", "node", node, "key", text, "other", other, "why",
             "two keys ask for the bundle under this name: two engines have it, or somebody else "
             "has a key for it; what it has of a revocation goes by the older of what they run",
             NULL);
}

static void hear(struct platform *p, struct follower *f, struct id key, uint64_t revision)
{
    uint64_t now_ms = world_now_ms();
    struct follower_voice *v = voice_of(f, key);
    bool comes_back = v->heard_at != 0 && f->latest != NULL && f->latest != v;
    v->revision = revision;
    v->heard_at = f->seen_at = now_ms;
    uint64_t oldest;
    size_t count = listen_to(p, f, now_ms, &oldest);
    if (count > 0) f->revision = oldest; /* none: the key has ended since it asked */
    if (count > 1 && comes_back) tell_shared(f, v);
    if (count == 1) f->is_shared_told = false;
    f->latest = v;
}

/* ---- who is behind ---- */

/* Appends the names of who does not run this revision yet, with commas between; how many there are.
 * `out` may be a buffer without room. */
static size_t put_behind(const struct platform *p, uint64_t revision, struct buf *out)
{
    size_t count = 0;
    uint64_t now_ms = world_now_ms();
    for (size_t i = 0; i < p->followers.count; i++) {
        const struct follower *f = &p->followers.all[i];
        if (f->revision >= revision || f->seen_at + FOLLOWER_KEEP_MS < now_ms) continue;
        if (count++ > 0) buf_put_byte(out, ',');
        json_put_string(out, node_of(f));
    }
    return count;
}

static void revoke_answer(struct job *j)
{
    link_remove(&j->link);
    loop_timer_stop(j->platform->loop, &j->timer);
    /* then it is told beside the new key: the brace is opened again */
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

/* Some may have taken it up: answers who waited for them. */
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
    return f->noted_at == 0 || f->revision != f->noted_revision ||
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

/* A store that cannot be written shows in health; the next tick tries again. */
static void note_done(struct job *j)
{
    struct platform *p = j->platform;
    const struct rows *rows = j->detail;
    p->followers.is_noting = false;
    for (size_t i = 0; j->err == ERR_OK && i < rows->count; i++) {
        struct follower *f = find(&p->followers, rows->list[i].node);
        if (f == NULL) continue; /* it made room meanwhile */
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

void followers_saw(struct platform *p, struct str node, struct id key, uint64_t revision)
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

/* ---- out of the store ---- */

/* What the store has of them. */
static void learn(struct platform *p, const struct follower_row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct follower_row *row = &rows[i];
        uint64_t oldest;
        if (row->node.size > NODE_BYTES_MAX) continue;
        struct follower *f = find_or_add(&p->followers, row->node);
        if (row->revision <= f->revision && row->seen_at <= f->seen_at) continue;
        /* It asks another platform now, and that one knows better. */
        f->revision = f->noted_revision = row->revision;
        f->noted_at = row->seen_at;
        if (row->seen_at > f->seen_at) f->seen_at = row->seen_at;
        /* But not for two who both ask here. */
        if (listen_to(p, f, world_now_ms(), &oldest) > 1 && oldest < f->revision)
            f->revision = oldest;
    }
}

static void look_work(struct job *j, struct store *s)
{
    struct rows *rows = j->detail;
    j->err =
        follower_store_list(s, j->actor.now_ms, &j->arena, rows->list, &rows->count, &j->fault);
}

/* Reads the store again and again while revocations wait. */
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

void followers_drain(struct platform *p)
{
    list_each (&p->followers.waits, k, following) revoke_answer(link_owner(k, struct job, link));
}

#include "engine/runtime/signing.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/limits.h"
#include "base/log.h"
#include "engine/engine.h"

enum { DIRECTORY_BYTES = 4000, EFFECT_ARENA_BYTES = 64 << 10 };

_Static_assert((int)SIGNERS_MAX >= (int)SIGNER_FILES_MAX + (int)SIGNER_ROTATIONS_MAX,
               "a set has room for all keys");

struct kept { /* a set that is or was current */
    struct kept *before;
    struct signers *signers;
};

struct signing {
    char directory[DIRECTORY_BYTES];
    const struct pepper *pepper;
    struct signer_secret files[SIGNER_FILES_MAX]; /* of earlier versions, by number */
    size_t file_count;
    size_t count; /* of the current set */
    struct kept *newest;
    _Atomic(const struct signers *) now;
};

static void signing_check(const struct signing *s)
{
    check(s->file_count <= SIGNER_FILES_MAX);
    check(s->newest != NULL &&
          s->newest->signers == atomic_load_explicit(&s->now, memory_order_relaxed));
    check(s->count > 0 && s->count <= SIGNERS_MAX);
}

static enum err check_names(const struct config *c, struct fault *f)
{
    const struct {
        const char *option, *value;
    } names[] = {{"token.issuer", c->token_issuer}, {"token.audience", c->token_audience}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct str value = str_from(names[i].value);
        if (value.size == 0 || str_code_points(value) > LIMIT_ID_CHARACTERS)
            return fault_set(f, ERR_BAD_VALUE, "", "%s: must be 1 to %d characters",
                             names[i].option, LIMIT_ID_CHARACTERS);
    }
    return ERR_OK;
}

enum err signing_create(const struct config *c, const struct pepper *pepper, struct signing **ret,
                        struct fault *f)
{
    enum err err = check_names(c, f);
    if (err != ERR_OK) return err;
    struct signing *s = calloc(1, sizeof *s);
    check(s != NULL);
    s->pepper = pepper;
    if (snprintf(s->directory, sizeof s->directory, "%s/engine/signers", c->data) >=
        DIRECTORY_BYTES) {
        free(s);
        return fault_set(f, ERR_BAD_VALUE, "", "data: the path is too long");
    }
    *ret = s;
    return ERR_OK;
}

void signing_destroy(struct signing *s)
{
    if (s == NULL) return;
    while (s->newest != NULL) {
        struct kept *k = s->newest;
        s->newest = k->before;
        signers_destroy(k->signers);
        free(k);
    }
    memory_wipe(s->files, sizeof s->files);
    free(s);
}

/* The folder stays when its last file is removed: it shows that tokens were signed here before. */
enum err signing_open(struct signing *s, bool begins_at_nothing, uint64_t now_ms, struct fault *f)
{
    char aside[SIGNERS_PATH_TEXT] = "";
    bool has_signed = access(s->directory, F_OK) == 0;
    if (begins_at_nothing && has_signed) {
        enum err err = signers_set_aside(s->directory, now_ms, aside, f);
        if (err != ERR_OK) return err;
        log_text(LOG_ERROR, "state_lost",
                 "this engine has signed tokens before, and its journal and snapshots are gone: "
                 "revocations, suspensions, reviews and the counts of limits are lost. No "
                 "earlier token is accepted%s%s. Suspend the same actors again: the audit trail "
                 "lists them",
                 aside[0] == '\0' ? "" : "; their signing keys are in ", aside);
    }
    return signer_files_read(s->directory, s->files, &s->file_count, f);
}

static void derive(const struct signing *s, const struct signer_rotation *r,
                   struct signer_secret *ret)
{
    char bytes[64];
    struct buf info = buf_over(bytes, sizeof bytes);
    buf_put_literal(&info, "writ signer ");
    buf_put_u64(&info, r->number);
    struct sha256 key = hkdf_once(str_of((const char *)s->pepper->bytes, sizeof s->pepper->bytes),
                                  str_of((const char *)r->salt, sizeof r->salt), buf_view(&info));
    *ret = (struct signer_secret){.number = r->number, .active_ms = r->active_ms};
    memcpy(ret->bytes, key.bytes, sizeof ret->bytes);
    memory_wipe(&key, sizeof key);
}

/* Removes the first of the list, and their files. */
static void drop_files(struct signing *s, const struct signer_table *t, size_t over)
{
    size_t gone = 0;
    check(s->file_count <= SIGNER_FILES_MAX);
    while (gone < s->file_count && (gone < over || s->files[gone].number < t->least)) {
        signer_file_remove(s->directory, s->files[gone].number);
        gone++;
    }
    s->file_count -= gone;
    memmove(s->files, s->files + gone, s->file_count * sizeof *s->files);
}

static size_t gather(const struct signing *s, const struct signer_table *t,
                     struct signer_secret list[SIGNERS_MAX])
{
    size_t count = 0;
    for (; count < s->file_count; count++) list[count] = s->files[count];
    for (size_t i = 0; i < t->count; i++) derive(s, &t->list[i], &list[count++]);
    check(count <= SIGNERS_MAX);
    return count;
}

void signing_follow(struct signing *s, const struct signer_table *t, uint64_t now_ms)
{
    struct signer_secret list[SIGNERS_MAX];
    drop_files(s, t, 0);
    size_t count = gather(s, t, list);
    if (count == 0) { /* a fleet that has no key yet: one that signs nothing */
        list[count++] = (struct signer_secret){.active_ms = now_ms};
        crypto_random(list[0].bytes, sizeof list[0].bytes);
    }
    size_t over = signers_over(list, count, now_ms, SIGNER_OVERLAP_MS);
    check(over < count); /* one signs */
    drop_files(s, t, over);
    struct kept *k = calloc(1, sizeof *k);
    check(k != NULL);
    *k = (struct kept){.before = s->newest, .signers = signers_create(list + over, count - over)};
    memory_wipe(list, sizeof list);
    s->newest = k;
    s->count = count - over;
    atomic_store_explicit(&s->now, k->signers, memory_order_release);
    signing_check(s);
}

void signing_keep_up(struct signing *s, const struct signer_table *t, uint64_t now_ms)
{
    signing_check(s);
    if (s->count == 1) return;
    struct signer_secret list[SIGNERS_MAX];
    size_t count = gather(s, t, list),
           left = count - signers_over(list, count, now_ms, SIGNER_OVERLAP_MS);
    memory_wipe(list, sizeof list);
    if (left == s->count) return;
    signing_follow(s, t, now_ms);
    log_text(LOG_INFO, "signer_dropped", "signer %lu signs now",
             (unsigned long)signers_current(signing_now(s), now_ms));
}

const struct signers *signing_now(const struct signing *s)
{
    return atomic_load_explicit(&s->now, memory_order_acquire);
}

/* ---- the first one ---- */

static enum err rotate_first(struct engine *e, bool has_files, struct fault *f)
{
    struct arena arena;
    struct effects effects = {.arena = &arena};
    struct chance chance = {.refill = crypto_random};
    struct call c = {.kind = CALL_ROTATE, .slot = SIGNER_SLOT, .now_ms = world_now_ms()};
    arena_init(&arena, EFFECT_ARENA_BYTES, EFFECT_ARENA_BYTES);
    c.id = id_make(c.now_ms, &chance);
    c.rotate.at_once = !has_files;
    crypto_random(c.rotate.salt, sizeof c.rotate.salt);
    shard_step(e->shards[SIGNER_SLOT], &c, &effects);
    check(c.answered && (c.err != ERR_OK || effects.record_count == 1));
    enum err err = c.err == ERR_OK ? lifecycle_put(e, &effects.records[0]) : c.err;
    arena_fini(&arena);
    return err == ERR_OK ? ERR_OK
                         : fault_set(f, err, "", "the first signing key cannot be recorded: %s",
                                     err_sentence(err));
}

enum err signing_begin(struct engine *e, struct fault *f)
{
    struct signing *s = e->signing;
    const struct signer_table *t = shard_signers(e->shards[SIGNER_SLOT]);
    if (e->member != NULL) { /* the first rotation is the leader's */
        signing_follow(s, t, world_now_ms());
        return ERR_OK;
    }
    enum err err = t->count > 0 ? ERR_OK : rotate_first(e, s->file_count > 0, f);
    if (err != ERR_OK) return err;
    if (mkdir(s->directory, 0700) != 0 && errno != EEXIST)
        return fault_set(f, err_from_errno(errno), "", "signers: cannot make %s: %s", s->directory,
                         strerror(errno));
    signing_follow(s, t, world_now_ms());
    return ERR_OK;
}

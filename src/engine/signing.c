#include "engine/signing.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/limits.h"
#include "base/log.h"

enum { DAY_MS = 86400000, TRY_AGAIN_MS = 60000, DIRECTORY_BYTES = 4000 };

struct kept { /* a set that was current once, or is */
    struct kept *before;
    struct signers *signers;
};

struct signing {
    char directory[DIRECTORY_BYTES];
    uint64_t rotate_ms;    /* 0: never */
    uint64_t try_again_ms; /* after a failure; 0: none */
    struct kept *newest;
    _Atomic(const struct signers *) now;
};

static void take(struct signing *s, struct signers *signers)
{
    struct kept *k = calloc(1, sizeof *k);
    check(k != NULL);
    *k = (struct kept){.before = s->newest, .signers = signers};
    s->newest = k;
    atomic_store_explicit(&s->now, signers, memory_order_release);
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

enum err signing_create(const struct config *c, struct signing **ret, struct fault *f)
{
    enum err err = check_names(c, f);
    if (err != ERR_OK) return err;
    struct signing *s = calloc(1, sizeof *s);
    check(s != NULL);
    s->rotate_ms = c->token_rotate_days * DAY_MS;
    if (snprintf(s->directory, sizeof s->directory, "%s/engine/signers", c->data) >=
        DIRECTORY_BYTES) {
        free(s);
        return fault_set(f, ERR_BAD_VALUE, "", "data: the path is too long");
    }
    *ret = s;
    return ERR_OK;
}

static void tell_loss(const char *aside)
{
    log_text(LOG_ERROR, "state_lost",
             "this engine has signed tokens before, and its journal and snapshots are gone: "
             "revocations, suspensions, reviews and the counts of limits are lost. Its signing "
             "keys are in %s now, so that no token of theirs is taken. Suspend again the actors "
             "that were: the audit trail has them",
             aside);
}

enum err signing_open(struct signing *s, bool begins_at_nothing, uint64_t now_ms, struct fault *f)
{
    struct signers *signers;
    char aside[SIGNERS_PATH_TEXT] = "";
    enum err err = begins_at_nothing ? signers_set_aside(s->directory, now_ms, aside, f) : ERR_OK;
    if (aside[0] != '\0') tell_loss(aside);
    if (err == ERR_OK) err = signers_open(s->directory, now_ms, SIGNERS_OVERLAP_MS, &signers, f);
    if (err != ERR_OK) return err;
    if (aside[0] == '\0' && signers_newest_ms(signers) == now_ms)
        log_text(LOG_WARNING, "signer_made",
                 "%s held no key and has a new one: tokens that are out already are not taken. "
                 "If there was one, put it back and start again",
                 s->directory);
    take(s, signers);
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
    free(s);
}

const struct signers *signing_now(const struct signing *s)
{
    return atomic_load_explicit(&s->now, memory_order_acquire);
}

/* The next pair is told as long before it signs as verifiers may keep the key set. */
static bool is_due(const struct signing *s, uint64_t now_ms)
{
    return s->rotate_ms != 0 &&
           now_ms + SIGNERS_LEAD_MS >= signers_newest_ms(s->newest->signers) + s->rotate_ms;
}

void signing_keep_up(struct signing *s, uint64_t now_ms)
{
    struct signers *signers;
    struct fault f;
    bool rotate = is_due(s, now_ms);
    if (!rotate && !signers_overdue(s->newest->signers, now_ms, SIGNERS_OVERLAP_MS)) return;
    if (now_ms < s->try_again_ms) return;
    enum err err = rotate ? signers_rotate(s->directory, now_ms, now_ms + SIGNERS_LEAD_MS,
                                           SIGNERS_OVERLAP_MS, &signers, &f)
                          : signers_open(s->directory, now_ms, SIGNERS_OVERLAP_MS, &signers, &f);
    if (err != ERR_OK) {
        s->try_again_ms = now_ms + TRY_AGAIN_MS;
        log_line(LOG_ERROR, "signers_not_rotated", "why", f.text, NULL);
        return;
    }
    take(s, signers);
    log_text(LOG_INFO, rotate ? "signer_made" : "signer_dropped", "signer %lu signs now",
             (unsigned long)signers_current(signers, now_ms));
}

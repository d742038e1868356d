/* rig.h - the whole command line, run inside the test, against a peer that notes what it is
 * asked. */
#ifndef TESTS_CLI_RIG_H
#define TESTS_CLI_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "access/key.h"
#include "cli/cli.h"
#include "unit/publish/peer.h"

#define RIG_KEY "wk_01JD0000000000000000000000_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA_"

struct rig {
    struct peer *peer;
    char key[128]; /* "WRIT_KEY=wk_…", of right form */
    char engine[160], platform[160];
    char *out, *err; /* what the latest run said */
};

static inline struct rig *rig_create(void)
{
    struct rig *r = calloc(1, sizeof *r);
    struct id id = {{1, 2, 3}};
    assert_non_null(r);
    r->peer = peer_create();
    memcpy(r->key, "WRIT_KEY=", 9);
    credential_make(id, r->key + 9);
    snprintf(r->engine, sizeof r->engine, "WRIT_ENGINE_URL=%s", r->peer->address);
    snprintf(r->platform, sizeof r->platform, "WRIT_PLATFORM_URL=%s", r->peer->address);
    return r;
}

static inline void rig_destroy(struct rig *r)
{
    peer_destroy(r->peer);
    free(r->out);
    free(r->err);
    free(r);
}

/* Runs `writ` with these words (ended by NULL); its exit status. Engine and platform are the peer,
 * WRIT_KEY is set unless `without_key`. */
static inline int rig_run(struct rig *r, int without_key, ...) __attribute__((sentinel));

static inline int rig_run(struct rig *r, int without_key, ...)
{
    char *argv[32] = {(char *)(uintptr_t) "writ"};
    int argc = 1;
    va_list words;
    va_start(words, without_key);
    for (char *word; (word = va_arg(words, char *)) != NULL; argv[argc++] = word)
        assert_true(argc < 31);
    va_end(words);
    char *environment[] = {r->engine, r->platform, without_key ? NULL : r->key, NULL};
    free(r->out);
    free(r->err);
    size_t out_size, err_size;
    FILE *out = open_memstream(&r->out, &out_size), *err = open_memstream(&r->err, &err_size);
    int code = cli_run(argc, argv, environment, out, err);
    fclose(out);
    fclose(err);
    return code;
}

#define RUN(r, ...) rig_run((r), false, __VA_ARGS__, (char *)NULL)
#define RUN_WITHOUT_KEY(r, ...) rig_run((r), true, __VA_ARGS__, (char *)NULL)

static inline void assert_has(const char *text, const char *part)
{
    if (text == NULL || strstr(text, part) == NULL)
        fail_msg("\"%s\" is not in: %s", part, text == NULL ? "(nothing)" : text);
}

/* The body of the peer's request number `index`. */
static inline const char *body_of(const struct rig *r, size_t index)
{
    assert_non_null(peer_request(r->peer, index));
    return strstr(peer_request(r->peer, index), "\r\n\r\n") + 4;
}

#endif

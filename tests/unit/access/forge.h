/* forge.h - signers of a test's own, tokens made by hand. */
#ifndef TESTS_FORGE_H
#define TESTS_FORGE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "access/signers.h"

enum { FORGE_NUMBER = 3 };

static const uint64_t forge_now_s = 1795166400;
#define FORGE_NOW_MS (forge_now_s * 1000 + 250)

/* The secret of RFC 8032, 7.1, TEST 1, which is that of RFC 8037, A.1. */
static const uint8_t forge_secret[ED25519_KEY_BYTES] = {
    0x9d, 0x61, 0xb1, 0x9d, 0xef, 0xfd, 0x5a, 0x60, 0xba, 0x84, 0x4a, 0xf4, 0x92, 0xec, 0x2c, 0xc4,
    0x44, 0x49, 0xc5, 0x69, 0x7b, 0x32, 0x69, 0x19, 0x70, 0x3b, 0xac, 0x03, 0x1c, 0xae, 0x7f, 0x60};

static inline struct signers *forge_signers(void)
{
    struct signers *s = calloc(1, sizeof *s);
    assert_non_null(s);
    signer_init(&s->list[s->count++], FORGE_NUMBER, 0, forge_secret);
    return s;
}

static inline struct token_claims forge_claims(void)
{
    return (struct token_claims){.id = {.bytes = {1, 2, 3}},
                                 .key = {.bytes = {4, 5, 6}},
                                 .subject = STR("agents"),
                                 .tenant = STR("acme"),
                                 .actor = STR("invoice_bot"),
                                 .acting_for = STR("carol"),
                                 .audience = STR("writ"),
                                 .scope = STR("issue_* get_*"),
                                 .issued_at = forge_now_s,
                                 .not_before = forge_now_s,
                                 .expires_at = forge_now_s + 60,
                                 .signer = FORGE_NUMBER};
}

static inline void forge_base64url(struct buf *b, const char *text)
{
    base64url_put(b, text, strlen(text));
}

#endif

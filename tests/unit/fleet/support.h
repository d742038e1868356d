/* support.h - entries as the tests of this room write them: no bytes, a digest that names term and n. */
#ifndef TESTS_FLEET_SUPPORT_H
#define TESTS_FLEET_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "fleet/fleet.h"

static inline struct incarnation incarnation_of(uint8_t engine)
{
    return (struct incarnation){{engine, 1}};
}

static inline struct sha256 digest_of(uint64_t term, uint64_t n, uint8_t engine)
{
    return (struct sha256){{(uint8_t)term, (uint8_t)n, engine, 0xd1}};
}

static inline struct entry term_of(uint64_t term, uint8_t engine)
{
    return (struct entry){.kind = ENTRY_TERM,
                          .term = term,
                          .incarnation = incarnation_of(engine),
                          .digest = digest_of(term, 0, engine)};
}

static inline struct entry records_of(uint64_t term, uint64_t n, uint8_t engine)
{
    return (struct entry){.kind = ENTRY_RECORDS,
                          .term = term,
                          .n = n,
                          .incarnation = incarnation_of(engine),
                          .previous = digest_of(term, n - 1, engine),
                          .digest = digest_of(term, n, engine)};
}

static inline struct entry heartbeat_of(uint8_t engine, uint64_t number, uint64_t applied,
                                        uint32_t lease_ms)
{
    static char names[256];
    names[engine] = (char)engine;
    return (struct entry){
        .kind = ENTRY_HEARTBEAT,
        .incarnation = incarnation_of(engine),
        .node = str_of(&names[engine], 1),
        .nonce = engine * 1000u + number,
        .heartbeat = {.number = number, .applied = applied, .lease_ms = lease_ms}};
}

#endif

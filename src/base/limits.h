/* limits.h - the fixed bounds that clients meet or that rooms share, with their reasons.
 *
 * What clients see of these is in schemas/; what an operator may change is an option in config/,
 * and what concerns one room alone is in that room's headers. */
#ifndef BASE_LIMITS_H
#define BASE_LIMITS_H

enum {
    /* What clients send. */
    /* a tool call's arguments; larger ones belong in storage */
    LIMIT_BODY_BYTES = 64 << 10,
    LIMIT_POLICY_BODY_BYTES = 1 << 20,     /* a document that people can still review */
    LIMIT_POLICY_SET_BODY_BYTES = 8 << 20, /* several of them in one request */
    LIMIT_INGEST_BODY_BYTES = 8 << 20,     /* thousands of events in one transaction */
    LIMIT_HEAD_BYTES = 16 << 10,           /* request line and headers together */
    LIMIT_TARGET_BYTES = 4 << 10,          /* path and query */
    LIMIT_JSON_DEPTH = 32,                 /* recursion stays in a few KiB of stack */
    LIMIT_ID_CHARACTERS = 256,             /* ids and names */
    /* Steps of a document's tests together, and of finding which rules they meet: as ten of the
     * dearest decisions, some 60 ms and at worst 400. */
    LIMIT_POLICY_TESTS_STEPS = 20000000,
    LIMIT_TOOL_CHARACTERS = 128,
    LIMIT_TRACE_ID_BYTES = 128,
    LIMIT_TOKEN_TTL_SECONDS = 86400, /* and how long a resumed actor is remembered */
    LIMIT_PAGE_DEFAULT = 20,
    LIMIT_PAGE = 500,
    LIMIT_REPLY_BYTES = 16 << 20, /* of an answer that we read: a page ends at half of it */

    /* What one record may be. */
    LIMIT_EVENT_BYTES = 60 << 10,    /* public bytes; four fit in a block with room to spare */
    LIMIT_DELTA_BYTES = 16 << 10,    /* the private part: names, terms, what was counted */
    LIMIT_RECORD_BYTES = 76 << 10,   /* both */
    LIMIT_RECORD_HEAD_BYTES = 16,    /* no less than the journal puts before each */
    LIMIT_RESERVE_BYTES = 160 << 10, /* two records that are written together or not at all */

    /* What one reactor holds. */
    LIMIT_BLOCK_BYTES = 256 << 10,        /* one frame of the journal: one pwrite */
    LIMIT_BLOCKS = 8,                     /* in flight to the scribe: 2 MiB, then reading stops */
    LIMIT_REQUEST_ARENA_BYTES = 16 << 20, /* worst case of a 64 KiB body of one-byte values */
    LIMIT_CONNECTION_OUT_BYTES = 1 << 20, /* replies that a client does not read */
    /* large replies, and bodies that arrive, of all clients of a program together */
    LIMIT_HELD_BYTES = 256 << 20,

    /* What one engine keeps; each reactor's shard has its equal part. Full is refused politely. */
    LIMIT_SLOTS = 1024,                    /* fixed for ever: the unit in which state moves */
    LIMIT_TOKENS = 4000000,                /* live tokens; 1 GB at 256 bytes each */
    LIMIT_REVIEWS = 400000,                /* pending and lately resolved */
    LIMIT_REVIEW_BYTES = 1 << 30,          /* of these, all that is kept of them */
    LIMIT_COUNTERS = 1000000,              /* of policies' limits */
    LIMIT_WINDOW_SECONDS = 30 * 24 * 3600, /* the longest of a limit */
    LIMIT_SUSPENDED = 100000,              /* actors; half of it by one tenant */

    LIMIT_PENDING_PER_ACTOR = 100, /* people read them */
    LIMIT_WAITERS_PER_REVIEW = 64,
    LIMIT_VISITS = 4096, /* requests of one reactor that are away at other slots */
    LIMIT_WAITS = 65536, /* of one reactor for reviews, at most (engine/waits.h) */

    LIMIT_REACTORS = 64,
    LIMIT_POLICIES_PER_TENANT = 1024,
    LIMIT_RULES_PER_DOCUMENT = 20000,
    /* in each bundle; those that have ended, too, for a while: */
    LIMIT_KEYS = 100000,
    LIMIT_KEYS_PER_TENANT = 50000,
    /* then one is forgotten, and refused as any unknown one */
    LIMIT_ENDED_KEY_DAYS = 30,
    LIMIT_POLICY_DEPTH = 16, /* nesting of a document */

    /* Engines take all tenants' policies and keys as one bundle. What does not fit into it
     * must never be stored: nobody would hear of a change again, a revoked key least of
     * all. A text is escaped there, to twice its size at most: 2 × 96 MiB and 48 MiB leave
     * 16 for what stands between. */
    LIMIT_BUNDLE_BYTES = 256 << 20,
    /* rises where an engine that reads it as before would be looser than what was asked for */
    LIMIT_BUNDLE_FORMAT = 1,
    LIMIT_POLICY_BYTES = 96 << 20, /* of all texts in force */
    /* sixteen of the largest; what they match, each decision visits */
    LIMIT_POLICY_BYTES_PER_TENANT = 16 << 20,
    LIMIT_POLICY_ROW_BYTES = 1 << 10, /* counted for each beside its text: names, digest */
    LIMIT_KEY_BYTES = 48 << 20,       /* of all rows */
    LIMIT_KEY_BYTES_PER_TENANT = 24 << 20,
};

#endif

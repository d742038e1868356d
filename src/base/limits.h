/* limits.h - the fixed limits that clients meet or that rooms share, with their reasons.
 *
 * Limits that clients see are in schemas/. Limits that an operator may change are options in
 * config/. A limit of one room alone is in that room's headers. */
#ifndef BASE_LIMITS_H
#define BASE_LIMITS_H

enum {
    /* Input of clients. */
    /* a tool call's arguments; larger ones belong in storage */
    LIMIT_BODY_BYTES = 64 << 10,
    LIMIT_POLICY_BODY_BYTES = 1 << 20,     /* a document that people can still review */
    LIMIT_POLICY_SET_BODY_BYTES = 8 << 20, /* several of them in one request */
    LIMIT_INGEST_BODY_BYTES = 8 << 20,     /* thousands of events in one transaction */
    LIMIT_HEAD_BYTES = 16 << 10,           /* request line and headers together */
    /* Requests without a known credential ("strangers"), on one reactor. A false token costs its
     * client nothing and a reactor 200 us. */
    LIMIT_STRANGERS = 1024,       /* that wait */
    LIMIT_STRANGERS_PER_TURN = 8, /* of these that one turn takes */
    LIMIT_STRANGER_SHARE = 5,     /* percent of the time, for each of their two kinds */
    LIMIT_OVERLOAD_OTHERS =
        500, /* percent of overload.delay, beside a client with most of the time */
    LIMIT_STRANGER_ADDRESSES = 1024, /* with false credentials that are remembered */
    LIMIT_FALSE_OF_CONNECTION = 12,  /* in a row, then it is closed */
    LIMIT_FALSE_FREE = 4,            /* of a connection, before its next request is delayed */
    LIMIT_FALSE_FREE_OF_ADDRESS = 16,
    LIMIT_FALSE_DELAY_SECONDS = 2, /* at most, for one request */
    /* TLS handshakes of one thread at a time: each holds some 50 KiB before its client has shown
     * anything. With a round trip of 100 ms that is 2,560 new connections a second. */
    LIMIT_TLS_HANDSHAKES = 256,
    LIMIT_TARGET_BYTES = 4 << 10, /* path and query */
    LIMIT_JSON_DEPTH = 32,        /* recursion stays in a few KiB of stack */
    LIMIT_ID_CHARACTERS = 256,    /* ids and names */
    /* Steps of the conditions of one decision, about a millisecond of its reactor; and the most that
     * the option policy.steps gives them, some 20. */
    LIMIT_POLICY_STEPS = 100000,
    LIMIT_POLICY_STEPS_MOST = 2000000,
    /* Steps of a document's tests together, and of finding which rules they meet: some 60 ms and at
     * worst 400. */
    LIMIT_POLICY_TESTS_STEPS = 20000000,
    LIMIT_TOOL_CHARACTERS = 128,
    LIMIT_TRACE_ID_BYTES = 128,
    LIMIT_TOKEN_TTL_SECONDS = 86400, /* and how long a resumed actor is remembered */
    LIMIT_TOKEN_USES = 1000000000,
    LIMIT_NOTE_CHARACTERS = 2000, /* of a vote on a review */
    LIMIT_BATCH = 100,            /* requests in one HTTP request */
    LIMIT_WAIT_SECONDS = 60,      /* proxies end connections that are silent for longer */
    LIMIT_LIMITS_PER_REQUEST =
        64, /* each may be a call to another reactor, and a line in the record */
    /* Explanations, dry runs and large lists that wait for their thread, or run on it: of one tenant,
     * and of all. Each has the memory of a request, and at most a fifth of a second of work. */
    LIMIT_OFFLOADED_OF_TENANT = 8,
    LIMIT_OFFLOADED = 64,
    LIMIT_OFFLOAD_WAIT_SECONDS = 10, /* for the thread: clients have other things to do */
    LIMIT_PAGE_DEFAULT = 20,
    LIMIT_PAGE = 500,
    LIMIT_TRACE_EVENTS = 500, /* in one answer about a trace */
    LIMIT_FORWARDED = 256,    /* requests that one program sends to the other at a time */
    LIMIT_ASSERTIONS = 8192,  /* calls of sessions that one engine accepts within a minute */
    LIMIT_SESSIONS = 10000,   /* in one store */
    /* Of one person, in a session and in each call of it: 64 groups with ids of 36 characters. */
    LIMIT_CLAIMS = 64,
    LIMIT_CLAIM_BYTES = 256, /* a name or a value */
    LIMIT_CLAIMS_BYTES = 3 << 10,
    LIMIT_SESSIONS_OF_ONE = 20, /* of one person of one key: one more ends the oldest */
    /* Identity providers. */
    LIMIT_OIDC_TOKEN_BYTES = 8 << 10,      /* half of a request's head */
    LIMIT_OIDC_KEYS = 64,                  /* of one provider, of the kinds that are used */
    LIMIT_OIDC_DOCUMENT_BYTES = 256 << 10, /* an answer of a provider */
    LIMIT_OIDC_KEYS_HOURS = 24,            /* how long keys are used while the provider is away */
    LIMIT_OIDC_REFRESH_SECONDS = 600,      /* how often keys are fetched */
    LIMIT_OIDC_UNKNOWN_KEY_SECONDS = 10,   /* between two fetches because of an unknown `kid` */
    LIMIT_OIDC_SKEW_SECONDS = 60,          /* by which clocks of provider and platform may differ */
    LIMIT_OIDC_EXCHANGES = 64,             /* codes that are exchanged at a time */
    LIMIT_SIGN_IN_SECONDS = 600,           /* from its start to the provider's answer */
    LIMIT_OIDC_BEARERS = 1024,             /* bearer tokens that are known to be valid */
    LIMIT_BUNDLE_WAITS = 1024, /* engines that wait for the next bundle at one platform */
    LIMIT_KEY_OVERLAP_DAYS = 30,
    /* Lines of a batch, and events of a post: so that the store's write lock is not held for
     * long. An engine sends at most a thousand. */
    LIMIT_INGEST_LINES = 4096,
    /* Lines of a batch that go to quarantine. No fewer than an engine sends, or a damaged
     * journal would stop it. */
    LIMIT_INGEST_WRONG_LINES = 1024,
    LIMIT_QUARANTINE_ROWS = 100000, /* above this the oldest are deleted */
    LIMIT_QUARANTINE_BYTES = 256 << 20,
    /* Journals under one node name: an engine has one. The bound exists because any client with
     * a key for a node can send records in its name, and engines read the positions. */
    LIMIT_STREAMS_PER_NODE = 64,
    LIMIT_STREAMS = 1 << 18,      /* of all nodes */
    LIMIT_REPLY_BYTES = 16 << 20, /* of an answer that a program reads: a page ends at half of it */

    /* The largest answer of Redis (pipeline/mirror/redis.h): usually two words. A key of another
     * program may hold more; an answer to the owner of a slot never does. */
    LIMIT_REDIS_ELEMENTS = 16,
    LIMIT_REDIS_TEXT_BYTES = 64 << 10,
    /* A whole hash of a slot, when another engine's state is adopted. All reviews can be in one
     * slot, with ten fields each and two elements a field. The image of one object has at most 1
     * MiB. */
    LIMIT_REDIS_HASH_ELEMENTS = 16 << 20,
    LIMIT_REDIS_FIELD_BYTES = 2 << 20,

    /* One record. */
    LIMIT_EVENT_BYTES = 60 << 10,    /* public bytes; four fit in a block with room to spare */
    LIMIT_DELTA_BYTES = 16 << 10,    /* the private part: names, terms, counted amounts */
    LIMIT_RECORD_BYTES = 76 << 10,   /* both */
    LIMIT_RECORD_HEAD_BYTES = 16,    /* no less than the journal writes before each record */
    LIMIT_RESERVE_BYTES = 160 << 10, /* two records that are written together or not at all */

    /* One reactor. */
    LIMIT_BLOCK_BYTES = 256 << 10, /* one frame of the journal: one pwrite */
    LIMIT_BLOCKS = 8,              /* in flight to the journal writer: 2 MiB, then reading stops */
    LIMIT_REQUEST_ARENA_BYTES = 16 << 20, /* worst case of a 64 KiB body of one-byte values */
    LIMIT_CONNECTION_OUT_BYTES = 1 << 20, /* replies that the client has not read */
    /* large replies and incoming bodies of all clients of a program together */
    LIMIT_HELD_BYTES = 256 << 20,

    /* One engine. Each reactor's shard has an equal part. A request over a limit is refused. */
    LIMIT_SLOTS = 1024,                    /* never changes: the unit in which state moves */
    LIMIT_TOKENS = 4000000,                /* live tokens; 1 GB at 256 bytes each */
    LIMIT_REVIEWS = 400000,                /* pending and lately resolved */
    LIMIT_REVIEW_BYTES = 1 << 30,          /* total size of these */
    LIMIT_COUNTERS = 1000000,              /* of policies' limits */
    LIMIT_SHADOW_COUNTERS = 100000,        /* of those in shadow mode; up to 92 MB */
    LIMIT_WINDOW_SECONDS = 30 * 24 * 3600, /* the longest of a limit */
    LIMIT_SUSPENDED = 100000,              /* actors; one tenant may have half of them */

    LIMIT_PENDING_PER_ACTOR = 100, /* people have to read them */
    LIMIT_WAITERS_PER_REVIEW = 64,
    LIMIT_REVIEW_KEPT_HOURS = 24,    /* after its end; the audit trail keeps it longer */
    LIMIT_RETRY_HOURS = 24,          /* how long an Idempotency-Key is known */
    LIMIT_OUTCOMES = 500000,         /* Idempotency-Keys of decisions: kept, and under way */
    LIMIT_OUTCOME_BYTES = 256 << 20, /* the decisions kept with them */
    LIMIT_OUTCOME_SECONDS = 600,
    LIMIT_WAITERS_PER_OUTCOME = 128, /* equal requests that wait for the first */
    /* Keys and tenants with rates that have used something within a window; 3 MiB. */
    LIMIT_METERS = 1 << 16,
    LIMIT_QUOTA_RETRY_SECONDS = 10, /* Retry-After of a request that is over its part of a table */
    LIMIT_CALLS_AWAY = 4096,        /* requests of one reactor that wait for other slots */
    LIMIT_WAITS = 65536, /* review waits of one reactor, at most (engine/runtime/waits.h) */

    LIMIT_REACTORS = 64,
    LIMIT_POLICIES_PER_TENANT = 1024,
    LIMIT_RULES_PER_DOCUMENT = 20000,
    /* in each bundle, including those that have ended, for LIMIT_ENDED_KEY_DAYS */
    LIMIT_KEYS = 100000,
    LIMIT_KEYS_PER_TENANT = 50000,
    /* then it is forgotten, and refused as an unknown key */
    LIMIT_ENDED_KEY_DAYS = 30,
    LIMIT_NOTICES = 5000,        /* messages that wait on one channel */
    LIMIT_ANNOUNCED = 100000,    /* reviews whose channels get a message about their end */
    LIMIT_NOTICE_HOURS = 24,     /* then a message that was not delivered is given up */
    LIMIT_REVISIONS_KEPT = 4096, /* they show whether a store has gone back */
    LIMIT_POLICY_DEPTH = 16,     /* nesting of a document */

    /* Engines get all tenants' policies and keys as one bundle. Content that does not fit into
     * it must never be stored: engines would not receive any later change, such as a revoked
     * key. A text is escaped there, to twice its size at most: 2 × 96 MiB and 48 MiB leave 16
     * MiB for the rest. */
    LIMIT_BUNDLE_BYTES = 256 << 20,
    /* higher when an engine that reads the bundle in the old way would allow more than intended */
    LIMIT_BUNDLE_FORMAT = 2,
    LIMIT_BUNDLE_FORMAT_PLAIN = 1, /* without rates of keys, which older engines would not apply */
    LIMIT_POLICY_BYTES = 96 << 20, /* of all texts in force */
    /* sixteen of the largest documents; each decision visits the rules that match */
    LIMIT_POLICY_BYTES_PER_TENANT = 16 << 20,
    /* counted for each document in addition to its text: names, digest */
    LIMIT_POLICY_ROW_BYTES = 1 << 10,
    LIMIT_KEY_BYTES = 48 << 20, /* of all rows */
    LIMIT_KEY_BYTES_PER_TENANT = 24 << 20,
};

/* The largest rate of a key or a tenant (access/rates.h). */
#define LIMIT_RATE UINT64_C(1000000000000)

#endif

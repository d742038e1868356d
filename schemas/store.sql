-- The platform's store: SQLite 3.38 or later, WAL, one file (platform.db), readable while the
-- platform runs. PRAGMA user_version = 21. The program makes and migrates it by itself
-- (src/store/schema_sqlite.c); a test holds this text against what it makes.
--
-- For analysts: read the view `events`, one column per member of the audit event
-- (event.schema.json), beside where it came from and its exact bytes. Everything else says how the
-- program works. Open it read-only (`sqlite3 -readonly platform.db`): a second writer would stop
-- ingest for as long as it holds the lock.
--
--   SELECT decision, count(*) FROM events WHERE kind = 'decision' AND mode = 'live' AND tenant_id = 'default' GROUP BY 1;
--   SELECT timestamp, actor, action, rule FROM events WHERE trace_id = '4bf9…' ORDER BY id;

-- One row: which database this is.
CREATE TABLE store (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    log_id TEXT NOT NULL,          -- random; an engine notices by it that a database was replaced
    revision INTEGER NOT NULL,     -- raised by one with every change of policies or keys
    created_at INTEGER NOT NULL,   -- milliseconds since 1970 UTC, as all integer times here
    -- Random, a new one with each revision: (revision, history_id) stands for all changes up to it.
    history_id TEXT NOT NULL DEFAULT '',
    -- Policies and keys are authenticated by these and by set_rows. Engines take nothing that does not
    -- fit. After a change by hand: writ set show, writ set adopt.
    adopted_at INTEGER NOT NULL DEFAULT 0,  -- when a command last made all rows valid; 0: never
    set_history TEXT NOT NULL DEFAULT '',   -- the newest 64 revisions: number:history_id, the newest last
    set_mac TEXT NOT NULL DEFAULT ''        -- HMAC under a key of the pepper: of the columns above, and of set_rows; ''
                                            -- in a store of an earlier version that was not adopted
);

-- The digest of each row of keys and policies.
CREATE TABLE set_rows (
    kind TEXT NOT NULL,            -- key, policy
    tenant_id TEXT NOT NULL,       -- '' for a key
    name TEXT NOT NULL,            -- of a key: its id
    digest TEXT NOT NULL,          -- SHA-256, hex
    PRIMARY KEY (kind, tenant_id, name)
) WITHOUT ROWID;

-- The newest 4,096 revisions. A platform that saw one that is not here knows that the store went back.
CREATE TABLE revisions (
    number INTEGER PRIMARY KEY,
    history_id TEXT NOT NULL
);

-- Audit events as they are kept: what queries select by, and the exact bytes.
CREATE TABLE records (
    id INTEGER PRIMARY KEY,        -- in the order of arrival; the cursor of GET /api/v1/audit
    created_at INTEGER NOT NULL,   -- when it was stored
    -- Where it came from; NULL for the platform's own events and for those that people post.
    node TEXT,                     -- the engine
    journal TEXT,                  -- which of its journals
    epoch TEXT,                    -- which of its boots
    seq INTEGER,                   -- the record's number in the journal, over all epochs
    event_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    tenant_id TEXT NOT NULL,
    trace_id TEXT,
    timestamp INTEGER NOT NULL,    -- when it happened
    actor TEXT,
    user_id TEXT,
    action TEXT,
    decision TEXT,
    rule TEXT,
    event TEXT NOT NULL,           -- the JSON, byte for byte as it was recorded
    restored INTEGER NOT NULL DEFAULT 0,    -- 1: posted with the role admin, and in no engine's stream
    CHECK ((node IS NULL) = (seq IS NULL))
);

-- An event's two identities. The same identity with other bytes goes to quarantine. One is its key: the
-- event_id where that is of our own form (evt_01 and 24 more, random), else event_id/tenant_id, so that
-- each tenant may number its events by itself (src/store/event_key.h).
CREATE UNIQUE INDEX records_event_key ON records (
    CASE WHEN length(event_id) = 30 AND substr(event_id, 1, 6) = 'evt_01' THEN event_id
         ELSE event_id || '/' || tenant_id END
);
CREATE UNIQUE INDEX records_source ON records (node, journal, seq) WHERE node IS NOT NULL;

-- The audit events, one column per member. A text of SQLite's JSON functions ends at a U+0000, which agents may
-- send: in `context`, a text or an object, U+FFFD stands for it; `args` and `event` have it as it was recorded.
-- `context`, `resource` and `scope` may be plain texts, which JSON functions refuse: json_extract(event, '$.resource.id')
-- is NULL there, json_extract(resource, '$.id') an error.
CREATE VIEW events AS SELECT
    id,
    strftime('%Y-%m-%dT%H:%M:%fZ', created_at / 1000.0, 'unixepoch') AS created_at,
    node, journal, epoch, seq,
    json_extract(event, '$.acting_for') AS acting_for,
    action, actor,
    json_extract(event, '$.args') AS args,
    json_extract(event, '$.binding_hash') AS binding_hash,
    json_extract(event, '$.confidence') AS confidence,
    json_extract(event, '$.confidence_used') AS confidence_used,
    json_extract(CASE WHEN instr(event, '\u0000') = 0 THEN event
                      ELSE replace(replace(event, '\\', '\u005c'), '\u0000', '\ufffd') END, '$.context') AS context,
    json_extract(event, '$.count') AS count,
    decision,
    json_extract(event, '$.engine_version') AS engine_version,
    event_id,
    json_extract(event, '$.expires_at') AS expires_at,
    json_extract(event, '$.input_hash') AS input_hash,
    json_extract(event, '$.key_id') AS key_id,
    kind,
    json_extract(event, '$.latency_ms') AS latency_ms,
    json_extract(event, '$.mode') AS mode,
    json_extract(event, '$.output_hash') AS output_hash,
    json_extract(event, '$.policy_digest') AS policy_digest,
    json_extract(event, '$.policy_name') AS policy_name,
    json_extract(event, '$.policy_version') AS policy_version,
    json_extract(event, '$.previous') AS previous,
    json_extract(event, '$.reason') AS reason,
    json_extract(event, '$.redemption_id') AS redemption_id,
    json_extract(event, '$.request_id') AS request_id,
    json_extract(event, '$.resolution_note') AS resolution_note,
    json_extract(event, '$.resolved_by') AS resolved_by,
    json_extract(event, '$.resource') AS resource,
    json_extract(event, '$.resource_properties') AS resource_properties,
    json_extract(event, '$.review_id') AS review_id,
    rule,
    json_extract(event, '$.safe_args') AS safe_args,
    json_extract(event, '$.safe_tool') AS safe_tool,
    json_extract(event, '$.scope') AS scope,
    tenant_id,
    json_extract(event, '$.timestamp') AS timestamp,
    json_extract(event, '$.token_id') AS token_id,
    trace_id, user_id,
    json_extract(event, '$.would_have') AS would_have,
    event,
    json_extract(event, '$.client_address') AS client_address,
    json_extract(event, '$.input_salt') AS input_salt,
    json_extract(event, '$.idempotency_key') AS idempotency_key,
    json_extract(event, '$.conversation_id') AS conversation_id,
    json_extract(event, '$.tool_call_id') AS tool_call_id,
    json_extract(event, '$.notify') AS notify,
    json_extract(event, '$.proof') AS proof
FROM records;

-- Where to look (src/store/audit_index.h). 1,024 records are a block, 64 blocks a segment:
-- segment = id >> 16, block = (id >> 10) & 63.
CREATE TABLE places (
    segment INTEGER NOT NULL,
    tenant_id TEXT NOT NULL,
    member INTEGER NOT NULL,       -- 0 the tenant itself, 1 actor, 2 action, 3 decision, 4 kind, 5 rule, 6 user_id
    value TEXT NOT NULL,
    blocks INTEGER NOT NULL,       -- one bit per block that has such a record
    PRIMARY KEY (segment, tenant_id, member, value)
) WITHOUT ROWID;

CREATE TABLE traces (
    segment INTEGER NOT NULL,
    hash INTEGER NOT NULL,         -- CRC-32C of the trace id
    id INTEGER NOT NULL,
    PRIMARY KEY (segment, hash, id)
) WITHOUT ROWID;

CREATE TABLE minutes (             -- of event time: which ids it has
    tenant_id TEXT NOT NULL,
    minute INTEGER NOT NULL,       -- since 1970
    first_id INTEGER NOT NULL,
    last_id INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, minute)
) WITHOUT ROWID;
CREATE INDEX minutes_last ON minutes (last_id);

-- How far each engine's journal has come; moved in the transaction of its rows.
CREATE TABLE streams (
    node TEXT NOT NULL,
    journal TEXT NOT NULL,
    epoch TEXT NOT NULL,           -- of record next_seq - 1
    next_seq INTEGER NOT NULL,     -- all below it are in records, in quarantine, dropped, or given up
    updated_at INTEGER NOT NULL,
    authenticated INTEGER NOT NULL DEFAULT 1,   -- 0: began before records had MACs, and had none yet
    PRIMARY KEY (node, journal)
) WITHOUT ROWID;

-- Evidence (schemas/evidence.md): the checkpoints that engines signed, at most one a second of each stream.
CREATE TABLE checkpoints (
    node TEXT NOT NULL,
    journal TEXT NOT NULL,
    base INTEGER NOT NULL,         -- the first record of the tree
    end_seq INTEGER NOT NULL,      -- its last record: base + size - 1
    from_seq INTEGER NOT NULL,     -- `frontier` is of the records below this one
    frontier TEXT NOT NULL,        -- what is needed to compute the root from record from_seq on
    note TEXT NOT NULL,            -- the signed note
    created_at INTEGER NOT NULL,
    PRIMARY KEY (node, journal, base, end_seq)
) WITHOUT ROWID;

-- The public keys of engines, as an admin registered them. Node '': the platform's own.
CREATE TABLE engine_keys (
    node TEXT NOT NULL,
    journal TEXT NOT NULL,
    public_key TEXT NOT NULL,      -- Ed25519, base64
    created_at INTEGER NOT NULL,
    created_by TEXT NOT NULL,
    mac TEXT NOT NULL,             -- HMAC under a key of the pepper
    distrusted_from INTEGER,       -- an admin has withdrawn it: it counts for the records before this one
    PRIMARY KEY (node, journal, public_key)
) WITHOUT ROWID;

-- Records that are not in the store by retention, or because a person accepted their loss: signed notes.
CREATE TABLE removals (
    number INTEGER PRIMARY KEY,
    node TEXT NOT NULL,
    journal TEXT NOT NULL,
    from_seq INTEGER NOT NULL,
    end_seq INTEGER NOT NULL,      -- the last one
    note TEXT NOT NULL,
    created_at INTEGER NOT NULL
);
CREATE INDEX removals_stream ON removals (node, journal, end_seq);

-- The newest checkpoint of a stream that an anchor has (docs/guides/anchors.md), and since when.
CREATE TABLE anchors (
    name TEXT NOT NULL,
    node TEXT NOT NULL,
    journal TEXT NOT NULL,
    base INTEGER NOT NULL,
    end_seq INTEGER NOT NULL,
    anchored_at INTEGER NOT NULL,
    PRIMARY KEY (name, node, journal, base)
) WITHOUT ROWID;

-- What arrived and could not be a row. A row here wants a person's look. At most 100,000 rows and 256
-- MiB: then the oldest go, as those do that are older than quarantine.keep.
CREATE TABLE quarantine (
    id INTEGER PRIMARY KEY,
    created_at INTEGER NOT NULL,
    reason TEXT NOT NULL,          -- clash, event_id clash, invalid, epoch unknown, poison, node full
    node TEXT NOT NULL,
    journal TEXT NOT NULL,
    epoch TEXT NOT NULL,
    seq INTEGER NOT NULL,
    digest TEXT NOT NULL,          -- SHA-256 of the bytes, hex
    event BLOB NOT NULL,           -- as they came, the first 128 KiB; digest is of all
    UNIQUE (node, journal, seq, digest)
);

-- What is in quarantine, counted. `dropped`: rows that are not there any more.
CREATE TABLE quarantine_size (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    row_count INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    dropped INTEGER NOT NULL
);
INSERT INTO quarantine_size VALUES (1, 0, 0, 0);

-- Where Kafka is used: the platforms that read the audit topic. One whose beat stands still for five
-- seconds, by another's clock, is taken for dead.
CREATE TABLE consumers (
    topic TEXT NOT NULL,
    owner TEXT NOT NULL,           -- random per process
    beat INTEGER NOT NULL,         -- raised each second
    seen_at INTEGER NOT NULL,      -- when; for people only
    PRIMARY KEY (topic, owner)
) WITHOUT ROWID;

-- How far each partition was read; moved in the transaction of its rows, by its owner only.
CREATE TABLE offsets (
    topic TEXT NOT NULL,
    partition INTEGER NOT NULL,
    next_offset INTEGER NOT NULL,  -- 0: nothing was read yet
    owner TEXT NOT NULL,           -- the consumer that reads it; '' = nobody
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (topic, partition)
) WITHOUT ROWID;

-- Streams of which records were missing in the topic: their engine is asked for them again.
CREATE TABLE replays (
    node TEXT NOT NULL,
    journal TEXT NOT NULL,
    from_seq INTEGER NOT NULL,
    asked_at INTEGER NOT NULL,     -- also the request's number
    PRIMARY KEY (node, journal)
) WITHOUT ROWID;

-- What was dropped by age (audit.keep). One row: records with an id below first_id are dropped, those
-- below removed_id also removed.
CREATE TABLE horizon (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    first_id INTEGER NOT NULL,
    removed_id INTEGER NOT NULL,
    day INTEGER NOT NULL           -- since 1970, when it was last looked
);
INSERT INTO horizon VALUES (1, 1, 1, 0);

-- Records of a stream below before_seq were dropped: should they come again, they are not stored.
CREATE TABLE dropped (
    node TEXT NOT NULL,
    journal TEXT NOT NULL,
    before_seq INTEGER NOT NULL,
    PRIMARY KEY (node, journal)
) WITHOUT ROWID;

-- Engines that ask for the bundle of policies and keys; forgotten after a week without a word.
CREATE TABLE followers (
    node TEXT PRIMARY KEY,
    revision INTEGER NOT NULL,     -- that it said it runs; 0: none that is known here
    seen_at INTEGER NOT NULL,      -- when it was last written down: a change, or an hour passed
    history_id TEXT NOT NULL DEFAULT '' -- of its revision; where `revisions` has no such pair it counts as 0
) WITHOUT ROWID;

-- Reviews that were announced to channels (notify.NAME): these channels are told what becomes of them.
CREATE TABLE announced (
    tenant_id TEXT NOT NULL,
    review_id TEXT NOT NULL,
    channels TEXT NOT NULL,        -- names with a blank between
    created_at INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, review_id)
) WITHOUT ROWID;

-- Messages to channels that were not delivered yet. A delivered one is deleted.
CREATE TABLE notices (
    record_id INTEGER NOT NULL,    -- the event that it is about
    channel TEXT NOT NULL,
    kind TEXT NOT NULL,            -- the event's, or review.reminder
    tenant_id TEXT NOT NULL,
    review_id TEXT NOT NULL,
    since INTEGER NOT NULL,        -- it is given up 24 hours later
    next_at INTEGER NOT NULL,      -- the next attempt is not before
    tries INTEGER NOT NULL,        -- attempts that were begun
    owner TEXT NOT NULL,           -- the platform that sends it now; '': none
    error TEXT NOT NULL,           -- of the last attempt
    PRIMARY KEY (record_id, channel, kind)
) WITHOUT ROWID;
CREATE INDEX notices_channel ON notices (channel, next_at);
CREATE INDEX notices_review ON notices (review_id, channel, record_id);

-- Sessions of people who signed in. A row ends with its session: by sign-out, or when it is found to be over.
CREATE TABLE sessions (
    hash TEXT PRIMARY KEY,         -- SHA-256 of the cookie's value, hex; the value is nowhere
    id TEXT NOT NULL UNIQUE,       -- ses_…
    key_id TEXT NOT NULL,          -- of the API key that was shown at the sign-in; '': none
    tenant_id TEXT NOT NULL,       -- or *
    person TEXT NOT NULL,
    proof TEXT NOT NULL,           -- key, oidc
    client_address TEXT NOT NULL,  -- where the sign-in came from
    created_at INTEGER NOT NULL,
    seen_at INTEGER NOT NULL,      -- its last use; at most half a minute behind
    expires_at INTEGER NOT NULL,   -- in any case
    provider TEXT NOT NULL DEFAULT '', -- of oidc: its name in the configuration; else ''
    subject TEXT NOT NULL DEFAULT '',  -- of oidc: the person's name at the provider (sub); else ''
    roles INTEGER NOT NULL DEFAULT 0,  -- of oidc: the roles of the API, as bits; else 0
    claims TEXT NOT NULL DEFAULT '[]'  -- of oidc: the configured claims, [["groups", "finance"]]
) WITHOUT ROWID;

-- Sign-ins at an identity provider that were completed. Each may be completed once.
CREATE TABLE sign_ins (
    hash TEXT PRIMARY KEY,         -- SHA-256 of the sign-in's state, hex
    ends_at INTEGER NOT NULL       -- when it may be forgotten
) WITHOUT ROWID;

-- Which actors are suspended, by the newest word of a person at any engine. A row is no event, and retention leaves it
-- alone. Of two words the later one counts; at the same time a suspension, then the one with the greater event_id.
CREATE TABLE suspensions (
    number INTEGER PRIMARY KEY,
    tenant_id TEXT NOT NULL,
    actor TEXT NOT NULL,           -- exactly as in the events
    suspended_at INTEGER,        -- NULL: the trail had its resume only
    suspended_by TEXT,
    reason TEXT,
    resumed_at INTEGER,          -- NULL: it is suspended
    resumed_by TEXT,
    event_id TEXT NOT NULL,           -- of the newest word
    UNIQUE (tenant_id, actor)
);
CREATE INDEX suspensions_open ON suspensions (number) WHERE resumed_at IS NULL;

-- Policy documents as they stand; the text is in policy_versions.
CREATE TABLE policies (
    number INTEGER PRIMARY KEY,    -- place in the list; the revision that made it
    id TEXT NOT NULL UNIQUE,
    tenant_id TEXT NOT NULL,
    name TEXT NOT NULL,
    description TEXT,
    is_active INTEGER NOT NULL,
    version INTEGER NOT NULL,
    revision INTEGER NOT NULL,     -- of the store, when it last changed
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    updated_by TEXT NOT NULL,      -- the key's name; policies.dir: a file's
    directory TEXT,                -- that a file was in: path, or host:path; NULL: none
    UNIQUE (tenant_id, name),
    FOREIGN KEY (tenant_id, name, version) REFERENCES policy_versions (tenant_id, name, version)
);

-- Every text there ever was; never changed, never deleted.
CREATE TABLE policy_versions (
    tenant_id TEXT NOT NULL,
    name TEXT NOT NULL,
    version INTEGER NOT NULL,
    format TEXT NOT NULL,          -- yaml, json
    digest TEXT NOT NULL,          -- SHA-256 of the content, hex
    content TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    created_by TEXT NOT NULL,
    mac TEXT,                      -- HMAC of the text under a key of the pepper: a rollback needs it
    PRIMARY KEY (tenant_id, name, version)
);

-- API keys. Of the credential only an HMAC is kept, within `key`.
CREATE TABLE keys (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    tenant_id TEXT NOT NULL,       -- or *
    key TEXT NOT NULL,             -- all of it, as JSON
    name TEXT AS (json_extract(key, '$.name')),
    owner TEXT AS (json_extract(key, '$.owner')),
    roles TEXT AS (json_extract(key, '$.roles')),
    created_at TEXT AS (json_extract(key, '$.created_at')),
    expires_at TEXT AS (json_extract(key, '$.expires_at')),
    revoked_at TEXT AS (json_extract(key, '$.revoked_at'))
);
CREATE INDEX keys_tenant ON keys (tenant_id);

-- Answers to ingest requests with an Idempotency-Key, for 24 hours.
CREATE TABLE idempotency (
    tenant_id TEXT NOT NULL,
    key_id TEXT NOT NULL,
    route TEXT NOT NULL,
    name TEXT NOT NULL,            -- the Idempotency-Key
    digest TEXT NOT NULL,          -- of the body
    status INTEGER NOT NULL,
    answer TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, key_id, route, name)
) WITHOUT ROWID;
CREATE INDEX idempotency_age ON idempotency (created_at);

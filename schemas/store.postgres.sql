-- The platform's store on PostgreSQL 14 or later (server_encoding UTF8): what SQLite has in one file
-- (store.sql), in the first schema of the search path. The program makes and migrates it by itself
-- (src/store/schema_postgres.c); a test holds this text against what it makes. Settings for a server
-- that takes many events: ops/examples/postgresql.conf.
--
-- For analysts: read the view `events`, one column per member of the audit event
-- (event.schema.json), beside where it came from and its exact bytes. Give them a role of their own
-- that may only read: GRANT SELECT ON events, minutes TO analysts. What is found by time reads little
-- (`WHERE timestamp >= …` uses a BRIN index).
--
--   SELECT decision, count(*) FROM events WHERE kind = 'decision' AND mode = 'live' AND tenant_id = 'default' GROUP BY 1;
--   SELECT timestamp, actor, action, rule FROM events WHERE timestamp >= now() - interval '1 hour' AND actor = 'bot';

-- Which steps of the schema were made, and when.
CREATE TABLE schema_version (version bigint PRIMARY KEY, made_at bigint NOT NULL);

-- One row: which database this is.
CREATE TABLE store (
    one integer PRIMARY KEY CHECK (one = 1),
    log_id text COLLATE "C" NOT NULL,      -- random; an engine notices by it that a database was replaced
    revision bigint NOT NULL,             -- raised by one with every change of policies or keys
    created_at bigint NOT NULL,           -- milliseconds since 1970 UTC, as all bigint times here
    -- Random, a new one with each revision: (revision, history_id) stands for all changes up to it.
    history_id text COLLATE "C" NOT NULL DEFAULT '',
    -- Policies and keys are authenticated by these and by set_rows. Engines take nothing that does not
    -- fit. After a change by hand: writ set show, writ set adopt.
    adopted_at bigint NOT NULL DEFAULT 0,  -- when a command last made all rows valid; 0: never
    set_history text COLLATE "C" NOT NULL DEFAULT '', -- the newest 64 revisions: number:history_id, the newest last
    set_mac text COLLATE "C" NOT NULL DEFAULT ''      -- HMAC under a key of the pepper: of the columns above, and of
                                                      -- set_rows; '' in a store of an earlier version
);

-- The digest of each row of keys and policies.
CREATE TABLE set_rows (
    kind text COLLATE "C" NOT NULL,        -- key, policy
    tenant_id text COLLATE "C" NOT NULL,   -- '' for a key
    name text COLLATE "C" NOT NULL,        -- of a key: its id
    digest text COLLATE "C" NOT NULL,      -- SHA-256, hex
    PRIMARY KEY (kind, tenant_id, name)
);

-- The newest 4,096 revisions. A platform that saw one that is not here knows that the store went back.
CREATE TABLE revisions (
    number bigint PRIMARY KEY,
    history_id text COLLATE "C" NOT NULL
);

-- One row, which whoever writes locks first: writers take turns, so ids rise in the order of commits.
CREATE TABLE marks (
    one integer PRIMARY KEY CHECK (one = 1),
    next_id bigint NOT NULL,              -- of the next record
    row_count bigint NOT NULL,            -- records that there are
    period bigint NOT NULL                -- day or month that the newest partition was begun for; 0: the first
);
INSERT INTO marks VALUES (1, 1, 0, 0);

-- Audit events as they are kept: what queries select by, and the exact bytes. Partition n holds the
-- ids from n << 26 on; with each day (each month, where nothing is ever dropped) ids go on in a new
-- one, so that a partition is also a span of time and is dropped as a whole. Gaps in ids mean nothing.
CREATE TABLE records (
    id bigint NOT NULL,                   -- in the order of arrival; the cursor of GET /api/v1/audit
    created_at bigint NOT NULL,           -- when it was stored
    -- Where it came from; NULL for the platform's own events and for those that people post.
    node text COLLATE "C",                 -- the engine
    journal text COLLATE "C",              -- which of its journals
    epoch text COLLATE "C",                -- which of its boots
    seq bigint,                           -- the record's number in the journal, over all epochs
    event_id text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    tenant_id text COLLATE "C" NOT NULL,
    trace_id text COLLATE "C",
    timestamp bigint NOT NULL,            -- when it happened
    actor text COLLATE "C",
    user_id text COLLATE "C",
    action text COLLATE "C",
    decision text COLLATE "C",
    rule text COLLATE "C",
    event text COLLATE "C" NOT NULL,       -- the JSON, byte for byte as it was recorded
    PRIMARY KEY (id),
    CHECK ((node IS NULL) = (seq IS NULL))
) PARTITION BY RANGE (id);
CREATE INDEX records_timestamp ON records USING brin ((to_timestamp(timestamp / 1000::float8)))
    WITH (pages_per_range = 32, autosummarize = on);
-- Evidence reads the records of a stream in their order (schema 22).
CREATE INDEX records_source ON records (node, journal, seq) WHERE node IS NOT NULL;

-- A record by its identities and its trace, over all partitions: an event's identities are unique
-- for ever, which an index of a partition cannot promise. One is its key: the event_id where that is of
-- our own form (evt_01 and 24 more, random), else event_id/tenant_id, so that each tenant may number
-- its events by itself (src/store/event_key.h). The other is its place in a journal.
CREATE TABLE identities (
    id bigint NOT NULL,
    event_key text COLLATE "C" NOT NULL,
    node text COLLATE "C",
    journal text COLLATE "C",
    seq bigint,
    span bigint NOT NULL,                 -- id >> 22: so that what is new lies together in the index
    trace_hash bigint                     -- CRC-32C of the trace id
);
CREATE INDEX identities_trace ON identities (span, trace_hash) WHERE trace_hash IS NOT NULL;
CREATE TABLE spans (span bigint PRIMARY KEY); -- which there are

-- The same identity with other bytes goes to quarantine.
CREATE UNIQUE INDEX identities_event_key ON identities (event_key);
CREATE UNIQUE INDEX identities_source ON identities (node, journal, seq) WHERE node IS NOT NULL;

-- The audit events, one column per member. PostgreSQL's texts cannot have a U+0000, which JSON can and agents
-- may send in their args: in the columns U+FFFD stands for it; `event` has it as it was recorded.
CREATE VIEW events AS SELECT
    id,
    to_timestamp(created_at / 1000::float8) AS created_at,
    node, journal, epoch, seq,
    members ->> 'acting_for' AS acting_for,
    action,
    actor,
    members -> 'args' AS args,
    members ->> 'binding_hash' AS binding_hash,
    (members ->> 'confidence')::double precision AS confidence,
    (members ->> 'confidence_used')::double precision AS confidence_used,
    members -> 'context' AS context,
    (members ->> 'count')::double precision::bigint AS count,
    decision,
    members ->> 'engine_version' AS engine_version,
    event_id,
    (members ->> 'expires_at')::timestamptz AS expires_at,
    members ->> 'input_hash' AS input_hash,
    members ->> 'key_id' AS key_id,
    kind,
    (members ->> 'latency_ms')::double precision AS latency_ms,
    members ->> 'mode' AS mode,
    members ->> 'output_hash' AS output_hash,
    members ->> 'policy_digest' AS policy_digest,
    members ->> 'policy_name' AS policy_name,
    (members ->> 'policy_version')::double precision::bigint AS policy_version,
    members -> 'previous' AS previous,
    members ->> 'reason' AS reason,
    members ->> 'redemption_id' AS redemption_id,
    members ->> 'request_id' AS request_id,
    members ->> 'resolution_note' AS resolution_note,
    members ->> 'resolved_by' AS resolved_by,
    members -> 'resource' AS resource,
    members -> 'resource_properties' AS resource_properties,
    members ->> 'review_id' AS review_id,
    rule,
    members -> 'safe_args' AS safe_args,
    members ->> 'safe_tool' AS safe_tool,
    members -> 'scope' AS scope,
    tenant_id,
    to_timestamp(timestamp / 1000::float8) AS timestamp,
    members ->> 'token_id' AS token_id,
    trace_id,
    user_id,
    members -> 'would_have' AS would_have,
    event,
    members ->> 'client_address' AS client_address,
    members ->> 'input_salt' AS input_salt,
    members ->> 'idempotency_key' AS idempotency_key,
    members ->> 'conversation_id' AS conversation_id,
    members ->> 'tool_call_id' AS tool_call_id,
    members -> 'notify' AS notify,
    members ->> 'proof' AS proof
FROM (
    SELECT *, CASE WHEN strpos(event, E'\\u0000') = 0 THEN event::json
                   ELSE replace(replace(event, E'\\\\', E'\\u005c'), E'\\u0000', E'\\ufffd')::json END AS members
    FROM records
) AS r;
-- After the view, which has the columns from before. 1: posted with the role admin, and in no engine's stream.
ALTER TABLE records ADD COLUMN restored bigint NOT NULL DEFAULT 0;

-- Where to look (src/store/audit_index.h). 1,024 ids are a block, 64 blocks a segment:
-- segment = id >> 16, block = (id >> 10) & 63.
CREATE TABLE places (
    segment bigint NOT NULL,
    tenant_id text COLLATE "C" NOT NULL,
    member integer NOT NULL,              -- 0 the tenant itself, 1 actor, 2 action, 3 decision, 4 kind, 5 rule, 6 user_id
    value text COLLATE "C" NOT NULL,
    blocks bigint NOT NULL,               -- one bit per block that has such a record
    PRIMARY KEY (tenant_id, member, value, segment)
) WITH (fillfactor = 60);

CREATE INDEX places_segment ON places (segment);

CREATE TABLE minutes (                    -- of event time: which ids it has
    tenant_id text COLLATE "C" NOT NULL,
    minute bigint NOT NULL,               -- since 1970
    first_id bigint NOT NULL,
    last_id bigint NOT NULL,
    PRIMARY KEY (tenant_id, minute)
) WITH (fillfactor = 60);
CREATE INDEX minutes_last ON minutes (last_id);

-- How far each engine's journal has come; moved in the transaction of its rows.
CREATE TABLE streams (
    node text COLLATE "C" NOT NULL,
    journal text COLLATE "C" NOT NULL,
    epoch text COLLATE "C" NOT NULL,       -- of record next_seq - 1
    next_seq bigint NOT NULL,             -- all below it are in records, in quarantine, dropped, or given up
    updated_at bigint NOT NULL,
    authenticated integer NOT NULL DEFAULT 1,   -- 0: began before records had MACs, and had none yet
    PRIMARY KEY (node, journal)
);

-- Evidence (schemas/evidence.md): the checkpoints that engines signed, at most one a second of each stream.
CREATE TABLE checkpoints (
    node text COLLATE "C" NOT NULL,
    journal text COLLATE "C" NOT NULL,
    base bigint NOT NULL,                 -- the first record of the tree
    end_seq bigint NOT NULL,              -- its last record: base + size - 1
    from_seq bigint NOT NULL,             -- `frontier` is of the records below this one
    frontier text COLLATE "C" NOT NULL,   -- what is needed to compute the root from record from_seq on
    note text COLLATE "C" NOT NULL,       -- the signed note
    created_at bigint NOT NULL,
    PRIMARY KEY (node, journal, base, end_seq)
);

-- The public keys of engines, as an admin registered them. Node '': the platform's own.
CREATE TABLE engine_keys (
    node text COLLATE "C" NOT NULL,
    journal text COLLATE "C" NOT NULL,
    public_key text COLLATE "C" NOT NULL, -- Ed25519, base64
    created_at bigint NOT NULL,
    created_by text COLLATE "C" NOT NULL,
    mac text COLLATE "C" NOT NULL,        -- HMAC under a key of the pepper
    distrusted_from bigint,               -- an admin has withdrawn it: it counts for the records before this one
    PRIMARY KEY (node, journal, public_key)
);

-- Records that are not in the store by retention, or because a person accepted their loss: signed notes.
CREATE TABLE removals (
    number bigint PRIMARY KEY GENERATED BY DEFAULT AS IDENTITY,
    node text COLLATE "C" NOT NULL,
    journal text COLLATE "C" NOT NULL,
    from_seq bigint NOT NULL,
    end_seq bigint NOT NULL,              -- the last one
    note text COLLATE "C" NOT NULL,
    created_at bigint NOT NULL
);
CREATE INDEX removals_stream ON removals (node, journal, end_seq);

-- The newest checkpoint of a stream that an anchor has (docs/guides/anchors.md), and since when.
CREATE TABLE anchors (
    name text COLLATE "C" NOT NULL,
    node text COLLATE "C" NOT NULL,
    journal text COLLATE "C" NOT NULL,
    base bigint NOT NULL,
    end_seq bigint NOT NULL,
    anchored_at bigint NOT NULL,
    PRIMARY KEY (name, node, journal, base)
);

-- What arrived and could not be a row. A row here wants a person's look. At most 100,000 rows and 256
-- MiB: then the oldest go, as those do that are older than quarantine.keep.
CREATE TABLE quarantine (
    id bigint PRIMARY KEY GENERATED BY DEFAULT AS IDENTITY,
    created_at bigint NOT NULL,
    reason text COLLATE "C" NOT NULL,      -- clash, event_id clash, invalid, epoch unknown, poison, node full
    node text COLLATE "C" NOT NULL,
    journal text COLLATE "C" NOT NULL,
    epoch text COLLATE "C" NOT NULL,
    seq bigint NOT NULL,
    digest text COLLATE "C" NOT NULL,      -- SHA-256 of the bytes, hex
    event bytea NOT NULL,                 -- as they came, the first 128 KiB; digest is of all
    UNIQUE (node, journal, seq, digest)
);

-- What is in quarantine, counted. `dropped`: rows that are not there any more.
CREATE TABLE quarantine_size (
    one integer PRIMARY KEY CHECK (one = 1),
    row_count bigint NOT NULL,
    bytes bigint NOT NULL,
    dropped bigint NOT NULL
);
INSERT INTO quarantine_size VALUES (1, 0, 0, 0);

-- Where Kafka is used: the platforms that read the audit topic. One whose beat stands still for five
-- seconds, by another's clock, is taken for dead.
CREATE TABLE consumers (
    topic text COLLATE "C" NOT NULL,
    owner text COLLATE "C" NOT NULL,       -- random per process
    beat bigint NOT NULL,                 -- raised each second
    seen_at bigint NOT NULL,              -- when; for people only
    PRIMARY KEY (topic, owner)
);

-- How far each partition was read; moved in the transaction of its rows, by its owner only.
CREATE TABLE offsets (
    topic text COLLATE "C" NOT NULL,
    partition bigint NOT NULL,
    next_offset bigint NOT NULL,          -- 0: nothing was read yet
    owner text COLLATE "C" NOT NULL,       -- the consumer that reads it; '' = nobody
    updated_at bigint NOT NULL,
    PRIMARY KEY (topic, partition)
);

-- Streams of which records were missing in the topic: their engine is asked for them again.
CREATE TABLE replays (
    node text COLLATE "C" NOT NULL,
    journal text COLLATE "C" NOT NULL,
    from_seq bigint NOT NULL,
    asked_at bigint NOT NULL,             -- also the request's number
    PRIMARY KEY (node, journal)
);

-- What was dropped by age (audit.keep). One row: records with an id below first_id are dropped, those
-- below removed_id also removed.
CREATE TABLE horizon (
    one integer PRIMARY KEY CHECK (one = 1),
    first_id bigint NOT NULL,
    removed_id bigint NOT NULL,
    day bigint NOT NULL                   -- since 1970, when it was last looked
);
INSERT INTO horizon VALUES (1, 1, 1, 0);

-- Records of a stream below before_seq were dropped: should they come again, they are not stored.
CREATE TABLE dropped (
    node text COLLATE "C" NOT NULL,
    journal text COLLATE "C" NOT NULL,
    before_seq bigint NOT NULL,
    PRIMARY KEY (node, journal)
);

-- Engines that ask for the bundle of policies and keys; forgotten after a week without a word.
CREATE TABLE followers (
    node text COLLATE "C" PRIMARY KEY,
    revision bigint NOT NULL,             -- that it said it runs; 0: none that is known here
    seen_at bigint NOT NULL,              -- when it was last written down: a change, or an hour passed
    history_id text COLLATE "C" NOT NULL DEFAULT '' -- of its revision; where `revisions` has no such pair it counts as 0
);

-- Reviews that were announced to channels (notify.NAME): these channels are told what becomes of them.
CREATE TABLE announced (
    tenant_id text COLLATE "C" NOT NULL,
    review_id text COLLATE "C" NOT NULL,
    channels text COLLATE "C" NOT NULL,    -- names with a blank between
    created_at bigint NOT NULL,
    PRIMARY KEY (tenant_id, review_id)
);

-- Messages to channels that were not delivered yet. A delivered one is deleted.
CREATE TABLE notices (
    record_id bigint NOT NULL,             -- the event that it is about
    channel text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,        -- the event's, or review.reminder
    tenant_id text COLLATE "C" NOT NULL,
    review_id text COLLATE "C" NOT NULL,
    since bigint NOT NULL,                 -- it is given up 24 hours later
    next_at bigint NOT NULL,               -- the next attempt is not before
    tries bigint NOT NULL,                 -- attempts that were begun
    owner text COLLATE "C" NOT NULL,       -- the platform that sends it now; '': none
    error text COLLATE "C" NOT NULL,       -- of the last attempt
    PRIMARY KEY (record_id, channel, kind)
);
CREATE INDEX notices_channel ON notices (channel, next_at);
CREATE INDEX notices_review ON notices (review_id, channel, record_id);

-- Sessions of people who signed in. A row ends with its session: by sign-out, or when it is found to be over.
CREATE TABLE sessions (
    hash text COLLATE "C" PRIMARY KEY,    -- SHA-256 of the cookie's value, hex; the value is nowhere
    id text COLLATE "C" NOT NULL UNIQUE,  -- ses_…
    key_id text COLLATE "C" NOT NULL,     -- of the API key that was shown at the sign-in; '': none
    tenant_id text COLLATE "C" NOT NULL,  -- or *
    person text COLLATE "C" NOT NULL,
    proof text COLLATE "C" NOT NULL,      -- key, oidc
    client_address text COLLATE "C" NOT NULL, -- where the sign-in came from
    created_at bigint NOT NULL,
    seen_at bigint NOT NULL,              -- its last use; at most half a minute behind
    expires_at bigint NOT NULL,           -- in any case
    provider text COLLATE "C" NOT NULL DEFAULT '', -- of oidc: its name in the configuration; else ''
    subject text COLLATE "C" NOT NULL DEFAULT '', -- of oidc: the person's name at the provider (sub); else ''
    roles bigint NOT NULL DEFAULT 0,      -- of oidc: the roles of the API, as bits; else 0
    claims text COLLATE "C" NOT NULL DEFAULT '[]' -- of oidc: the configured claims, [["groups", "finance"]]
);

-- Sign-ins at an identity provider that were completed. Each may be completed once.
CREATE TABLE sign_ins (
    hash text COLLATE "C" PRIMARY KEY,    -- SHA-256 of the sign-in's state, hex
    ends_at bigint NOT NULL               -- when it may be forgotten
);

-- Every text of a policy there ever was; never changed, never deleted.
CREATE TABLE policy_versions (
    tenant_id text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    format text COLLATE "C" NOT NULL,      -- yaml, json
    digest text COLLATE "C" NOT NULL,      -- SHA-256 of the content, hex
    content text COLLATE "C" NOT NULL,
    created_at bigint NOT NULL,
    created_by text COLLATE "C" NOT NULL,
    mac text COLLATE "C",                  -- HMAC of the text under a key of the pepper: a rollback needs it
    PRIMARY KEY (tenant_id, name, version)
);

-- Which actors are suspended, by the newest word of a person at any engine. A row is no event, and retention leaves it
-- alone. Of two words the later one counts; at the same time a suspension, then the one with the greater event_id.
CREATE TABLE suspensions (
    number bigint PRIMARY KEY GENERATED BY DEFAULT AS IDENTITY,
    tenant_id text COLLATE "C" NOT NULL,
    actor text COLLATE "C" NOT NULL,  -- exactly as in the events
    suspended_at bigint,        -- NULL: the trail had its resume only
    suspended_by text COLLATE "C",
    reason text COLLATE "C",
    resumed_at bigint,          -- NULL: it is suspended
    resumed_by text COLLATE "C",
    event_id text COLLATE "C" NOT NULL,  -- of the newest word
    UNIQUE (tenant_id, actor)
);
CREATE INDEX suspensions_open ON suspensions (number) WHERE resumed_at IS NULL;

-- Policy documents as they stand.
CREATE TABLE policies (
    number bigint PRIMARY KEY GENERATED BY DEFAULT AS IDENTITY,
    id text COLLATE "C" NOT NULL UNIQUE,
    tenant_id text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    description text COLLATE "C",
    is_active integer NOT NULL,
    version bigint NOT NULL,
    revision bigint NOT NULL,             -- of the store, when it last changed
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    updated_by text COLLATE "C" NOT NULL,  -- the key's name; policies.dir: a file's
    directory text COLLATE "C",           -- that a file was in: path, or host:path; NULL: none
    UNIQUE (tenant_id, name),
    FOREIGN KEY (tenant_id, name, version) REFERENCES policy_versions (tenant_id, name, version)
);

-- API keys. Of the credential only an HMAC is kept, within `key`.
CREATE TABLE keys (
    number bigint PRIMARY KEY GENERATED BY DEFAULT AS IDENTITY,
    id text COLLATE "C" NOT NULL UNIQUE,
    tenant_id text COLLATE "C" NOT NULL,   -- or *
    key text COLLATE "C" NOT NULL,         -- all of it, as JSON
    name text COLLATE "C" GENERATED ALWAYS AS (key::json ->> 'name') STORED,
    owner text COLLATE "C" GENERATED ALWAYS AS (key::json ->> 'owner') STORED,
    roles text COLLATE "C" GENERATED ALWAYS AS (key::json ->> 'roles') STORED,
    created_at text COLLATE "C" GENERATED ALWAYS AS (key::json ->> 'created_at') STORED,
    expires_at text COLLATE "C" GENERATED ALWAYS AS (key::json ->> 'expires_at') STORED,
    revoked_at text COLLATE "C" GENERATED ALWAYS AS (key::json ->> 'revoked_at') STORED
);
CREATE INDEX keys_tenant ON keys (tenant_id);

-- Answers to ingest requests with an Idempotency-Key, for 24 hours.
CREATE TABLE idempotency (
    tenant_id text COLLATE "C" NOT NULL,
    key_id text COLLATE "C" NOT NULL,
    route text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,        -- the Idempotency-Key
    digest text COLLATE "C" NOT NULL,      -- of the body
    status integer NOT NULL,
    answer text COLLATE "C" NOT NULL,
    created_at bigint NOT NULL,
    PRIMARY KEY (tenant_id, key_id, route, name)
);
CREATE INDEX idempotency_age ON idempotency (created_at);

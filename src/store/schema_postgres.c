/* schema_postgres.c - the schema on PostgreSQL, step by step. See schema.h for the rules.
 * schemas/store.postgres.sql describes the result of the last step for people, with the use of each
 * table, and a test compares the two.
 *
 * Why it differs from SQLite's:
 *   records   in partitions, since a hundred million rows can only be removed by DROP TABLE. By id
 *             and not by time: ids rise with time, and every query knows its ids first
 *             (audit_index.h). So a query plans and locks one partition, not all of them
 *   identities (before step 7: ids) the two identities of an event over all partitions, which
 *             PostgreSQL's indexes, one per partition, cannot keep unique; and a trace's records
 *   texts     in the collation "C", whatever the database's is: the order is the order of bytes */
#include "store/schema.h"

#include "store/event_key.h"

static const char step_1[] =
    "CREATE TABLE store (one integer PRIMARY KEY CHECK (one = 1), log_id text COLLATE \"C\" "
    "NOT NULL, revision bigint NOT NULL, created_at bigint NOT NULL);"

    "CREATE TABLE marks (one integer PRIMARY KEY CHECK (one = 1), next_id bigint NOT NULL, "
    "row_count bigint NOT NULL, period bigint NOT NULL);"

    "INSERT INTO marks VALUES (1, 1, 0, 0);"

    "CREATE TABLE records (id bigint NOT NULL, created_at bigint NOT NULL, node text COLLATE "
    "\"C\", journal text COLLATE \"C\", epoch text COLLATE \"C\", seq bigint, event_id text "
    "COLLATE \"C\" NOT NULL, kind text COLLATE \"C\" NOT NULL, tenant_id text COLLATE \"C\" "
    "NOT NULL, trace_id text COLLATE \"C\", timestamp bigint NOT NULL, actor text COLLATE "
    "\"C\", user_id text COLLATE \"C\", action text COLLATE \"C\", decision text COLLATE "
    "\"C\", rule text COLLATE \"C\", event text COLLATE \"C\" NOT NULL, PRIMARY KEY (id), "
    "CHECK ((node IS NULL) = (seq IS NULL))) PARTITION BY RANGE (id);"

    "CREATE INDEX records_timestamp ON records USING brin ((to_timestamp(timestamp / "
    "1000::float8))) WITH (pages_per_range = 32, autosummarize = on);"

    "CREATE TABLE ids (id bigint NOT NULL, event_id text COLLATE \"C\" NOT NULL, node text "
    "COLLATE \"C\", journal text COLLATE \"C\", seq bigint, span bigint NOT NULL, trace_hash "
    "bigint);"

    "CREATE INDEX ids_trace ON ids (span, trace_hash) WHERE trace_hash IS NOT NULL;"

    "CREATE TABLE spans (span bigint PRIMARY KEY);"

    "CREATE VIEW events AS SELECT id, to_timestamp(created_at / 1000::float8) AS created_at, node, "
    "journal, epoch, seq, event::json ->> 'acting_for' AS acting_for, action, actor, "
    "event::json -> 'args' AS args, event::json ->> 'binding_hash' AS binding_hash, "
    "(event::json ->> 'confidence')::double precision AS confidence, (event::json ->> "
    "'confidence_used')::double precision AS confidence_used, event::json -> 'context' AS "
    "context, (event::json ->> 'count')::bigint AS count, decision, event::json ->> "
    "'engine_version' AS engine_version, event_id, (event::json ->> "
    "'expires_at')::timestamptz AS expires_at, event::json ->> 'input_hash' AS input_hash, "
    "event::json ->> 'key_id' AS key_id, kind, (event::json ->> 'latency_ms')::double "
    "precision AS latency_ms, event::json ->> 'mode' AS mode, event::json ->> 'output_hash' "
    "AS output_hash, event::json ->> 'policy_digest' AS policy_digest, event::json ->> "
    "'policy_name' AS policy_name, (event::json ->> 'policy_version')::bigint AS "
    "policy_version, event::json -> 'previous' AS previous, event::json ->> 'reason' AS "
    "reason, event::json ->> 'redemption_id' AS redemption_id, event::json ->> 'request_id' "
    "AS request_id, event::json ->> 'resolution_note' AS resolution_note, event::json ->> "
    "'resolved_by' AS resolved_by, event::json -> 'resource' AS resource, event::json -> "
    "'resource_properties' AS resource_properties, event::json ->> 'review_id' AS review_id, "
    "rule, event::json -> 'safe_args' AS safe_args, event::json ->> 'safe_tool' AS safe_tool, "
    "event::json -> 'scope' AS scope, tenant_id, to_timestamp(timestamp / 1000::float8) AS "
    "timestamp, event::json ->> 'token_id' AS token_id, trace_id, user_id, event::json -> "
    "'would_have' AS would_have, event FROM records;"

    "CREATE TABLE places (segment bigint NOT NULL, tenant_id text COLLATE \"C\" NOT NULL, "
    "member integer NOT NULL, value text COLLATE \"C\" NOT NULL, blocks bigint NOT NULL, "
    "PRIMARY KEY (tenant_id, member, value, segment)) WITH (fillfactor = 60);"

    "CREATE INDEX places_segment ON places (segment);"

    "CREATE TABLE minutes (tenant_id text COLLATE \"C\" NOT NULL, minute bigint NOT NULL, "
    "first_id bigint NOT NULL, last_id bigint NOT NULL, PRIMARY KEY (tenant_id, minute)) WITH "
    "(fillfactor = 60);"

    "CREATE TABLE streams (node text COLLATE \"C\" NOT NULL, journal text COLLATE \"C\" NOT "
    "NULL, epoch text COLLATE \"C\" NOT NULL, next_seq bigint NOT NULL, updated_at bigint NOT "
    "NULL, PRIMARY KEY (node, journal));"

    "CREATE TABLE quarantine (id bigint PRIMARY KEY GENERATED BY DEFAULT AS IDENTITY, "
    "created_at bigint NOT NULL, reason text COLLATE \"C\" NOT NULL, node text COLLATE \"C\" "
    "NOT NULL, journal text COLLATE \"C\" NOT NULL, epoch text COLLATE \"C\" NOT NULL, seq "
    "bigint NOT NULL, digest text COLLATE \"C\" NOT NULL, event bytea NOT NULL, UNIQUE (node, "
    "journal, seq, digest));"

    "CREATE TABLE consumers (topic text COLLATE \"C\" NOT NULL, owner text COLLATE \"C\" NOT "
    "NULL, beat bigint NOT NULL, seen_at bigint NOT NULL, PRIMARY KEY (topic, owner));"

    "CREATE TABLE offsets (topic text COLLATE \"C\" NOT NULL, partition bigint NOT NULL, "
    "next_offset bigint NOT NULL, owner text COLLATE \"C\" NOT NULL, updated_at bigint NOT "
    "NULL, PRIMARY KEY (topic, partition));"

    "CREATE TABLE replays (node text COLLATE \"C\" NOT NULL, journal text COLLATE \"C\" NOT "
    "NULL, from_seq bigint NOT NULL, asked_at bigint NOT NULL, PRIMARY KEY (node, journal));"

    "CREATE TABLE horizon (one integer PRIMARY KEY CHECK (one = 1), first_id bigint NOT NULL, "
    "removed_id bigint NOT NULL, day bigint NOT NULL);"

    "INSERT INTO horizon VALUES (1, 1, 1, 0);"

    "CREATE TABLE dropped (node text COLLATE \"C\" NOT NULL, journal text COLLATE \"C\" NOT "
    "NULL, before_seq bigint NOT NULL, PRIMARY KEY (node, journal));"

    "CREATE TABLE policy_versions (tenant_id text COLLATE \"C\" NOT NULL, name text COLLATE "
    "\"C\" NOT NULL, version bigint NOT NULL, format text COLLATE \"C\" NOT NULL, digest text "
    "COLLATE \"C\" NOT NULL, content text COLLATE \"C\" NOT NULL, created_at bigint NOT NULL, "
    "created_by text COLLATE \"C\" NOT NULL, PRIMARY KEY (tenant_id, name, version));"

    "CREATE TABLE policies (number bigint PRIMARY KEY GENERATED BY DEFAULT AS IDENTITY, id "
    "text COLLATE \"C\" NOT NULL UNIQUE, tenant_id text COLLATE \"C\" NOT NULL, name text "
    "COLLATE \"C\" NOT NULL, description text COLLATE \"C\", is_active integer NOT NULL, "
    "version bigint NOT NULL, revision bigint NOT NULL, created_at bigint NOT NULL, "
    "updated_at bigint NOT NULL, updated_by text COLLATE \"C\" NOT NULL, UNIQUE (tenant_id, "
    "name), FOREIGN KEY (tenant_id, name, version) REFERENCES policy_versions (tenant_id, "
    "name, version));"

    "CREATE TABLE keys (number bigint PRIMARY KEY GENERATED BY DEFAULT AS IDENTITY, id text "
    "COLLATE \"C\" NOT NULL UNIQUE, tenant_id text COLLATE \"C\" NOT NULL, key text COLLATE "
    "\"C\" NOT NULL, name text COLLATE \"C\" GENERATED ALWAYS AS (key::json ->> 'name') "
    "STORED, owner text COLLATE \"C\" GENERATED ALWAYS AS (key::json ->> 'owner') STORED, "
    "roles text COLLATE \"C\" GENERATED ALWAYS AS (key::json ->> 'roles') STORED, created_at "
    "text COLLATE \"C\" GENERATED ALWAYS AS (key::json ->> 'created_at') STORED, expires_at "
    "text COLLATE \"C\" GENERATED ALWAYS AS (key::json ->> 'expires_at') STORED, revoked_at "
    "text COLLATE \"C\" GENERATED ALWAYS AS (key::json ->> 'revoked_at') STORED);"

    "CREATE INDEX keys_tenant ON keys (tenant_id);"

    "CREATE TABLE idempotency (tenant_id text COLLATE \"C\" NOT NULL, key_id text COLLATE "
    "\"C\" NOT NULL, route text COLLATE \"C\" NOT NULL, name text COLLATE \"C\" NOT NULL, "
    "digest text COLLATE \"C\" NOT NULL, status integer NOT NULL, answer text COLLATE \"C\" "
    "NOT NULL, created_at bigint NOT NULL, PRIMARY KEY (tenant_id, key_id, route, name));"

    "CREATE INDEX idempotency_age ON idempotency (created_at);"
    /* Events are rarely too long to be stored in place; then they get the better compression. */
    "DO $$ BEGIN ALTER TABLE records ALTER COLUMN event SET COMPRESSION lz4;"
    " EXCEPTION WHEN feature_not_supported THEN NULL; END $$;";

/* The two identities of an event. */
static const char step_1_identity[] =
    "CREATE UNIQUE INDEX ids_event_id ON ids (event_id);"
    "CREATE UNIQUE INDEX ids_source ON ids (node, journal, seq) WHERE node IS NOT NULL;";
static const char step_1_no_identity[] =
    "CREATE INDEX ids_event_id ON ids (event_id);"
    "CREATE INDEX ids_source ON ids (node, journal, seq) WHERE node IS NOT NULL;";

/* The directory of policies that put a document in force (policy_store.h). */
static const char step_4[] = "ALTER TABLE policies ADD COLUMN directory text COLLATE \"C\";";

/* Engines that ask for the bundle (follower_store.h). */
static const char step_5[] =
    "CREATE TABLE followers (node text COLLATE \"C\" PRIMARY KEY, revision bigint NOT NULL, seen_at "
    "bigint NOT NULL);";

/* The old view could not be read if one event had a U+0000 in its args (PostgreSQL's texts cannot),
 * or a count written as 1.0: one such row made every query fail. */
/* clang-format off */
#define EVENTS_6 \
    "SELECT id, to_timestamp(created_at / 1000::float8) AS created_at, node, journal, epoch, " \
    "seq, members ->> 'acting_for' AS acting_for, action, actor, members -> 'args' AS args, " \
    "members ->> 'binding_hash' AS binding_hash, (members ->> 'confidence')::double " \
    "precision AS confidence, (members ->> 'confidence_used')::double precision AS " \
    "confidence_used, members -> 'context' AS context, (members ->> 'count')::double " \
    "precision::bigint AS count, decision, members ->> 'engine_version' AS engine_version, " \
    "event_id, (members ->> 'expires_at')::timestamptz AS expires_at, members ->> " \
    "'input_hash' AS input_hash, members ->> 'key_id' AS key_id, kind, (members ->> " \
    "'latency_ms')::double precision AS latency_ms, members ->> 'mode' AS mode, members ->> " \
    "'output_hash' AS output_hash, members ->> 'policy_digest' AS policy_digest, members ->> " \
    "'policy_name' AS policy_name, (members ->> 'policy_version')::double precision::bigint " \
    "AS policy_version, members -> 'previous' AS previous, members ->> 'reason' AS reason, " \
    "members ->> 'redemption_id' AS redemption_id, members ->> 'request_id' AS request_id, " \
    "members ->> 'resolution_note' AS resolution_note, members ->> 'resolved_by' AS " \
    "resolved_by, members -> 'resource' AS resource, members -> 'resource_properties' AS " \
    "resource_properties, members ->> 'review_id' AS review_id, rule, members -> 'safe_args' " \
    "AS safe_args, members ->> 'safe_tool' AS safe_tool, members -> 'scope' AS scope, " \
    "tenant_id, to_timestamp(timestamp / 1000::float8) AS timestamp, members ->> 'token_id' " \
    "AS token_id, trace_id, user_id, members -> 'would_have' AS would_have, event"
#define MEMBERS_6 \
    "FROM (SELECT *, CASE WHEN strpos(event, E'\\\\u0000') = 0 THEN event::json ELSE " \
    "replace(replace(event, E'\\\\\\\\', E'\\\\u005c'), E'\\\\u0000', E'\\\\ufffd')::json " \
    "END AS members FROM records) AS r"
/* clang-format on */
static const char step_6[] = "CREATE OR REPLACE VIEW events AS " EVENTS_6 " " MEMBERS_6 ";";

/* Before, an event_id was unique over all tenants. The table is renamed first, which ends the COPY
 * of an older platform that still runs: its rows would follow the old rule. Then, of a hundred
 * million rows, only those are written whose key is not their event_id (event_key.h), each by its
 * id: a join might read all records. */
static const char step_7[] =
    "ALTER TABLE ids RENAME TO identities;"
    "UPDATE identities SET event_id ="
    " coalesce((SELECT " EVENT_KEY " FROM records WHERE records.id = identities.id), event_id)"
    " WHERE NOT (" EVENT_ID_IS_OURS ");"
    "ALTER TABLE identities RENAME event_id TO event_key;"
    "ALTER INDEX ids_event_id RENAME TO identities_event_key;"
    "ALTER INDEX ids_source RENAME TO identities_source;"
    "ALTER INDEX ids_trace RENAME TO identities_trace;";

/* Members that were added to events. */
static const char step_8[] = "CREATE OR REPLACE VIEW events AS " EVENTS_6
                             ", members ->> 'client_address' AS client_address, members ->> "
                             "'input_salt' AS input_salt " MEMBERS_6 ";";

/* Counters of the quarantine; and an index of the minutes that retention may remove. */
static const char step_9[] =
    "CREATE TABLE quarantine_size (one integer PRIMARY KEY CHECK (one = 1), row_count bigint NOT NULL,"
    " bytes bigint NOT NULL, dropped bigint NOT NULL);"
    "INSERT INTO quarantine_size SELECT 1, count(*), coalesce(sum(length(event)), 0), 0 FROM quarantine;"
    "CREATE INDEX minutes_last ON minutes (last_id);";

/* Revisions are pairs with a random id (history.h): an engine's revision counts if the store has
 * it. */
static const char step_10[] =
    "ALTER TABLE store ADD COLUMN history_id text COLLATE \"C\" NOT NULL DEFAULT '';"
    "CREATE TABLE revisions (number bigint PRIMARY KEY, history_id text COLLATE \"C\" NOT NULL);"
    "INSERT INTO revisions (number, history_id) SELECT revision, history_id FROM store;"
    "ALTER TABLE followers ADD COLUMN history_id text COLLATE \"C\" NOT NULL DEFAULT '';";

/* A member that was added to events. */
static const char step_11[] =
    "CREATE OR REPLACE VIEW events AS " EVENTS_6
    ", members ->> 'client_address' AS client_address, members ->> 'input_salt' AS input_salt,"
    " members ->> 'idempotency_key' AS idempotency_key " MEMBERS_6 ";";

static const char step_12[] =
    "CREATE OR REPLACE VIEW events AS " EVENTS_6
    ", members ->> 'client_address' AS client_address, members ->> 'input_salt' AS input_salt,"
    " members ->> 'idempotency_key' AS idempotency_key,"
    " members ->> 'conversation_id' AS conversation_id,"
    " members ->> 'tool_call_id' AS tool_call_id " MEMBERS_6 ";";

/* Messages about reviews (pipeline/notify): a member of events, and what is to be sent. */
static const char step_13[] =
    "CREATE OR REPLACE VIEW events AS " EVENTS_6
    ", members ->> 'client_address' AS client_address, members ->> 'input_salt' AS input_salt,"
    " members ->> 'idempotency_key' AS idempotency_key,"
    " members ->> 'conversation_id' AS conversation_id,"
    " members ->> 'tool_call_id' AS tool_call_id,"
    " members -> 'notify' AS notify " MEMBERS_6 ";"
    "CREATE TABLE announced (tenant_id text COLLATE \"C\" NOT NULL, review_id text COLLATE \"C\" NOT NULL,"
    " channels text COLLATE \"C\" NOT NULL, created_at bigint NOT NULL,"
    " PRIMARY KEY (tenant_id, review_id));"
    "CREATE TABLE notices (record_id bigint NOT NULL, channel text COLLATE \"C\" NOT NULL,"
    " kind text COLLATE \"C\" NOT NULL, tenant_id text COLLATE \"C\" NOT NULL,"
    " review_id text COLLATE \"C\" NOT NULL, since bigint NOT NULL, next_at bigint NOT NULL,"
    " tries bigint NOT NULL, owner text COLLATE \"C\" NOT NULL, error text COLLATE \"C\" NOT NULL,"
    " PRIMARY KEY (record_id, channel, kind));"
    "CREATE INDEX notices_channel ON notices (channel, next_at);"
    "CREATE INDEX notices_review ON notices (review_id, channel, record_id);";

/* Sessions of people who signed in (session_store.h); and a member that was added to events. */
static const char step_14[] =
    "CREATE TABLE sessions (hash text COLLATE \"C\" PRIMARY KEY, id text COLLATE \"C\" NOT NULL UNIQUE,"
    " key_id text COLLATE \"C\" NOT NULL, tenant_id text COLLATE \"C\" NOT NULL,"
    " person text COLLATE \"C\" NOT NULL, proof text COLLATE \"C\" NOT NULL,"
    " client_address text COLLATE \"C\" NOT NULL, created_at bigint NOT NULL, seen_at bigint NOT NULL,"
    " expires_at bigint NOT NULL);"
    "CREATE OR REPLACE VIEW events AS " EVENTS_6
    ", members ->> 'client_address' AS client_address, members ->> 'input_salt' AS input_salt,"
    " members ->> 'idempotency_key' AS idempotency_key,"
    " members ->> 'conversation_id' AS conversation_id,"
    " members ->> 'tool_call_id' AS tool_call_id, members -> 'notify' AS notify,"
    " members ->> 'proof' AS proof " MEMBERS_6 ";";

/* The set of policies and keys is authenticated (set.h). */
static const char step_15[] =
    "ALTER TABLE store ADD COLUMN adopted_at bigint NOT NULL DEFAULT 0;"
    "ALTER TABLE store ADD COLUMN set_history text COLLATE \"C\" NOT NULL DEFAULT '';"
    "ALTER TABLE store ADD COLUMN set_mac text COLLATE \"C\" NOT NULL DEFAULT '';"
    "ALTER TABLE policy_versions ADD COLUMN mac text COLLATE \"C\";"
    "CREATE TABLE set_rows (kind text COLLATE \"C\" NOT NULL, tenant_id text COLLATE \"C\" NOT NULL,"
    " name text COLLATE \"C\" NOT NULL, digest text COLLATE \"C\" NOT NULL,"
    " PRIMARY KEY (kind, tenant_id, name));";

/* People who signed in at an identity provider, and the sign-ins that were completed. */
static const char step_16[] =
    "ALTER TABLE sessions ADD COLUMN provider text COLLATE \"C\" NOT NULL DEFAULT '';"
    "ALTER TABLE sessions ADD COLUMN subject text COLLATE \"C\" NOT NULL DEFAULT '';"
    "ALTER TABLE sessions ADD COLUMN roles bigint NOT NULL DEFAULT 0;"
    "ALTER TABLE sessions ADD COLUMN claims text COLLATE \"C\" NOT NULL DEFAULT '[]';"
    "CREATE TABLE sign_ins (hash text COLLATE \"C\" PRIMARY KEY, ends_at bigint NOT NULL);";

/* The kill switch, outside retention (suspension.h), with what the trail has. Only the segments that
 * have such a record are read (audit_index.h). */
static const char step_17[] =
    "CREATE TABLE suspensions (number bigint PRIMARY KEY GENERATED BY DEFAULT AS IDENTITY,"
    " tenant_id text COLLATE \"C\" NOT NULL, actor text COLLATE \"C\" NOT NULL, suspended_at bigint,"
    " suspended_by text COLLATE \"C\", reason text COLLATE \"C\", resumed_at bigint,"
    " resumed_by text COLLATE \"C\", event_id text COLLATE \"C\" NOT NULL, UNIQUE (tenant_id, actor));"
    "INSERT INTO suspensions (tenant_id, actor, suspended_at, suspended_by, reason, resumed_at,"
    " resumed_by, event_id) SELECT tenant_id, actor,"
    " CASE kind WHEN 'actor.suspended' THEN timestamp END,"
    " CASE kind WHEN 'actor.suspended' THEN event::json ->> 'resolved_by' END,"
    " CASE kind WHEN 'actor.suspended' THEN event::json ->> 'reason' END,"
    " CASE kind WHEN 'actor.resumed' THEN timestamp END,"
    " CASE kind WHEN 'actor.resumed' THEN event::json ->> 'resolved_by' END, event_id"
    " FROM (SELECT r.tenant_id, r.actor, r.kind, r.timestamp, r.event_id, r.event,"
    " row_number() OVER (PARTITION BY r.tenant_id, r.actor ORDER BY r.timestamp DESC, r.kind DESC,"
    " r.event_id DESC)"
    " AS age FROM (SELECT DISTINCT segment FROM places WHERE member = 4"
    " AND value IN ('actor.suspended', 'actor.resumed')) AS p"
    " CROSS JOIN records AS r WHERE r.id >= p.segment * 65536 AND r.id < (p.segment + 1) * 65536"
    " AND r.kind IN ('actor.suspended', 'actor.resumed') AND r.node IS NOT NULL"
    " AND r.actor IS NOT NULL) AS words WHERE age = 1 ORDER BY timestamp, event_id;"
    "CREATE INDEX suspensions_open ON suspensions (number) WHERE resumed_at IS NULL;";

/* Evidence (schemas/evidence.md). Streams of before may go on without MACs until they first have one. */
static const char step_18[] =
    "ALTER TABLE records ADD COLUMN restored bigint NOT NULL DEFAULT 0;"
    "ALTER TABLE streams ADD COLUMN authenticated integer NOT NULL DEFAULT 1;"
    "UPDATE streams SET authenticated = 0;"
    "CREATE TABLE checkpoints (node text COLLATE \"C\" NOT NULL, journal text COLLATE \"C\" NOT NULL,"
    " base bigint NOT NULL, end_seq bigint NOT NULL, from_seq bigint NOT NULL,"
    " frontier text COLLATE \"C\" NOT NULL, note text COLLATE \"C\" NOT NULL,"
    " created_at bigint NOT NULL, PRIMARY KEY (node, journal, base, end_seq));"
    "CREATE TABLE engine_keys (node text COLLATE \"C\" NOT NULL, journal text COLLATE \"C\" NOT NULL,"
    " public_key text COLLATE \"C\" NOT NULL, created_at bigint NOT NULL,"
    " created_by text COLLATE \"C\" NOT NULL, mac text COLLATE \"C\" NOT NULL,"
    " PRIMARY KEY (node, journal, public_key));"
    "CREATE TABLE removals (number bigint PRIMARY KEY GENERATED BY DEFAULT AS IDENTITY,"
    " node text COLLATE \"C\" NOT NULL, journal text COLLATE \"C\" NOT NULL, from_seq bigint NOT NULL,"
    " end_seq bigint NOT NULL, note text COLLATE \"C\" NOT NULL, created_at bigint NOT NULL);"
    "CREATE INDEX removals_stream ON removals (node, journal, end_seq);";

static const char step_19[] =
    "CREATE TABLE anchors (name text COLLATE \"C\" NOT NULL, node text COLLATE \"C\" NOT NULL,"
    " journal text COLLATE \"C\" NOT NULL, base bigint NOT NULL, end_seq bigint NOT NULL,"
    " anchored_at bigint NOT NULL, PRIMARY KEY (name, node, journal, base));";

/* A key that an admin has withdrawn counts for the records before this one. */
static const char step_21[] = "ALTER TABLE engine_keys ADD COLUMN distrusted_from bigint;";

/* Evidence reads the records of a stream in their order, and not by way of `identities`: a row that was
 * put into records alone must be seen. */
static const char step_22[] =
    "CREATE INDEX records_source ON records (node, journal, seq) WHERE node IS NOT NULL;";

/* Steps 2 and 3 are older than the PostgreSQL store: they are in the first. Step 20 is of the JSON in
 * keys.key only. */
const struct schema_step schema_postgres[SCHEMA_NEWEST] = {
    {step_1, step_1_identity, step_1_no_identity},
    {"", NULL, NULL},
    {"", NULL, NULL},
    {step_4, NULL, NULL},
    {step_5, NULL, NULL},
    {step_6, NULL, NULL},
    {step_7, NULL, NULL},
    {step_8, NULL, NULL},
    {step_9, NULL, NULL},
    {step_10, NULL, NULL},
    {step_11, NULL, NULL},
    {step_12, NULL, NULL},
    {step_13, NULL, NULL},
    {step_14, NULL, NULL},
    {step_15, NULL, NULL},
    {step_16, NULL, NULL},
    {step_17, NULL, NULL},
    {step_18, NULL, NULL},
    {step_19, NULL, NULL},
    {"", NULL, NULL},
    {step_21, NULL, NULL},
    {step_22, NULL, NULL},
};

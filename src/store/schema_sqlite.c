/* schema_sqlite.c - the schema on SQLite, step by step. See schema.h for the rules.
 * schemas/store.sql describes the result of the last step for analysts, and a test compares the
 * two. */
#include "store/schema.h"

#include "store/event_key.h"

static const char step_1[] =
    "CREATE TABLE store (one INTEGER PRIMARY KEY CHECK (one = 1), log_id TEXT NOT NULL, revision "
    "INTEGER NOT NULL,"
    " created_at INTEGER NOT NULL);"

    /* Members that queries select by have columns of their own. The view below reads the rest from
     * the event's JSON only when it is queried, so it costs nothing to store. */
    "CREATE TABLE records (id INTEGER PRIMARY KEY, created_at INTEGER NOT NULL,"
    " node TEXT, journal TEXT, epoch TEXT, seq INTEGER,"
    " event_id TEXT NOT NULL, kind TEXT NOT NULL, tenant_id TEXT NOT NULL, trace_id TEXT, "
    "timestamp INTEGER NOT NULL,"
    " actor TEXT, user_id TEXT, action TEXT, decision TEXT, rule TEXT, event TEXT NOT NULL,"
    " CHECK ((node IS NULL) = (seq IS NULL)));"

    "CREATE VIEW events AS SELECT id,"
    " strftime('%Y-%m-%dT%H:%M:%fZ', created_at / 1000.0, 'unixepoch') AS created_at, node, "
    "journal, epoch, seq,"
    " json_extract(event, '$.acting_for') AS acting_for, action, actor, json_extract(event, "
    "'$.args') AS args,"
    " json_extract(event, '$.binding_hash') AS binding_hash, json_extract(event, '$.confidence') "
    "AS confidence,"
    " json_extract(event, '$.confidence_used') AS confidence_used, json_extract(event, "
    "'$.context') AS context,"
    " json_extract(event, '$.count') AS count, decision, json_extract(event, '$.engine_version') "
    "AS engine_version,"
    " event_id, json_extract(event, '$.expires_at') AS expires_at, json_extract(event, "
    "'$.input_hash') AS input_hash,"
    " json_extract(event, '$.key_id') AS key_id, kind, json_extract(event, '$.latency_ms') AS "
    "latency_ms,"
    " json_extract(event, '$.mode') AS mode, json_extract(event, '$.output_hash') AS output_hash,"
    " json_extract(event, '$.policy_digest') AS policy_digest, json_extract(event, "
    "'$.policy_name') AS policy_name,"
    " json_extract(event, '$.policy_version') AS policy_version, json_extract(event, '$.previous') "
    "AS previous,"
    " json_extract(event, '$.reason') AS reason, json_extract(event, '$.redemption_id') AS "
    "redemption_id,"
    " json_extract(event, '$.request_id') AS request_id, json_extract(event, '$.resolution_note') "
    "AS resolution_note,"
    " json_extract(event, '$.resolved_by') AS resolved_by, json_extract(event, '$.resource') AS "
    "resource,"
    " json_extract(event, '$.resource_properties') AS resource_properties,"
    " json_extract(event, '$.review_id') AS review_id, rule, json_extract(event, '$.safe_args') AS "
    "safe_args,"
    " json_extract(event, '$.safe_tool') AS safe_tool, json_extract(event, '$.scope') AS scope, "
    "tenant_id,"
    " json_extract(event, '$.timestamp') AS timestamp, json_extract(event, '$.token_id') AS "
    "token_id, trace_id, user_id,"
    " json_extract(event, '$.would_have') AS would_have, event FROM records;"

    "CREATE TABLE places (segment INTEGER NOT NULL, tenant_id TEXT NOT NULL, member INTEGER NOT "
    "NULL,"
    " value TEXT NOT NULL, blocks INTEGER NOT NULL, PRIMARY KEY (segment, tenant_id, member, "
    "value)) WITHOUT ROWID;"

    "CREATE TABLE traces (segment INTEGER NOT NULL, hash INTEGER NOT NULL, id INTEGER NOT NULL,"
    " PRIMARY KEY (segment, hash, id)) WITHOUT ROWID;"

    "CREATE TABLE minutes (tenant_id TEXT NOT NULL, minute INTEGER NOT NULL, first_id INTEGER NOT "
    "NULL,"
    " last_id INTEGER NOT NULL, PRIMARY KEY (tenant_id, minute)) WITHOUT ROWID;"

    "CREATE TABLE streams (node TEXT NOT NULL, journal TEXT NOT NULL, epoch TEXT NOT NULL, "
    "next_seq INTEGER NOT NULL,"
    " updated_at INTEGER NOT NULL, PRIMARY KEY (node, journal)) WITHOUT ROWID;"

    "CREATE TABLE quarantine (id INTEGER PRIMARY KEY, created_at INTEGER NOT NULL, reason TEXT NOT "
    "NULL,"
    " node TEXT NOT NULL, journal TEXT NOT NULL, epoch TEXT NOT NULL, seq INTEGER NOT NULL, digest "
    "TEXT NOT NULL,"
    " event BLOB NOT NULL, UNIQUE (node, journal, seq, digest));"

    "CREATE TABLE policies (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, tenant_id TEXT "
    "NOT NULL,"
    " name TEXT NOT NULL, description TEXT, is_active INTEGER NOT NULL, version INTEGER NOT NULL,"
    " revision INTEGER NOT NULL, created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, "
    "updated_by TEXT NOT NULL,"
    " UNIQUE (tenant_id, name), FOREIGN KEY (tenant_id, name, version)"
    " REFERENCES policy_versions (tenant_id, name, version));"
    "CREATE TABLE policy_versions (tenant_id TEXT NOT NULL, name TEXT NOT NULL, version INTEGER "
    "NOT NULL,"
    " format TEXT NOT NULL, digest TEXT NOT NULL, content TEXT NOT NULL, created_at INTEGER NOT "
    "NULL,"
    " created_by TEXT NOT NULL, PRIMARY KEY (tenant_id, name, version));"

    "CREATE TABLE keys (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, tenant_id TEXT NOT "
    "NULL,"
    " key TEXT NOT NULL, name TEXT AS (json_extract(key, '$.name')), owner TEXT AS "
    "(json_extract(key, '$.owner')),"
    " roles TEXT AS (json_extract(key, '$.roles')), created_at TEXT AS (json_extract(key, "
    "'$.created_at')),"
    " expires_at TEXT AS (json_extract(key, '$.expires_at')), revoked_at TEXT AS "
    "(json_extract(key, '$.revoked_at')));"
    "CREATE INDEX keys_tenant ON keys (tenant_id);"

    "CREATE TABLE idempotency (tenant_id TEXT NOT NULL, key_id TEXT NOT NULL, route TEXT NOT NULL, "
    "name TEXT NOT NULL,"
    " digest TEXT NOT NULL, status INTEGER NOT NULL, answer TEXT NOT NULL, created_at INTEGER NOT "
    "NULL,"
    " PRIMARY KEY (tenant_id, key_id, route, name)) WITHOUT ROWID;"
    "CREATE INDEX idempotency_age ON idempotency (created_at);";

/* The two identities of an event. */
static const char step_1_identity[] =
    "CREATE UNIQUE INDEX records_event_id ON records (event_id);"
    "CREATE UNIQUE INDEX records_source ON records (node, journal, seq)"
    " WHERE node IS NOT NULL;";
static const char step_1_no_identity[] =
    "CREATE INDEX records_event_id ON records (event_id);"
    "CREATE INDEX records_source ON records (node, journal, seq)"
    " WHERE node IS NOT NULL;";

/* Readers of Kafka's audit topic. */
static const char step_2[] =
    "CREATE TABLE consumers (topic TEXT NOT NULL, owner TEXT NOT NULL, beat INTEGER NOT NULL, seen_at "
    "INTEGER NOT NULL,"
    " PRIMARY KEY (topic, owner)) WITHOUT ROWID;"
    "CREATE TABLE offsets (topic TEXT NOT NULL, partition INTEGER NOT NULL, next_offset INTEGER NOT "
    "NULL,"
    " owner TEXT NOT NULL, updated_at INTEGER NOT NULL, PRIMARY KEY (topic, partition)) WITHOUT ROWID;"
    "CREATE TABLE replays (node TEXT NOT NULL, journal TEXT NOT NULL, from_seq INTEGER NOT NULL,"
    " asked_at INTEGER NOT NULL, PRIMARY KEY (node, journal)) WITHOUT ROWID;";

/* The horizon of events dropped by age (retention.h). */
static const char step_3[] =
    "CREATE TABLE horizon (one INTEGER PRIMARY KEY CHECK (one = 1), first_id INTEGER NOT NULL,"
    " removed_id INTEGER NOT NULL, day INTEGER NOT NULL);"
    "INSERT INTO horizon VALUES (1, 1, 1, 0);"
    "CREATE TABLE dropped (node TEXT NOT NULL, journal TEXT NOT NULL, before_seq INTEGER NOT NULL,"
    " PRIMARY KEY (node, journal)) WITHOUT ROWID;";

/* The directory of policies that put a document in force (policy_store.h). */
static const char step_4[] = "ALTER TABLE policies ADD COLUMN directory TEXT;";

/* Engines that ask for the bundle (follower_store.h). */
static const char step_5[] =
    "CREATE TABLE followers (node TEXT PRIMARY KEY, revision INTEGER NOT NULL, seen_at INTEGER NOT "
    "NULL) WITHOUT ROWID;";

/* The old view cut a context that is a text at its U+0000. */
/* clang-format off */
#define EVENTS_6 \
    "SELECT id, strftime('%Y-%m-%dT%H:%M:%fZ', created_at / 1000.0, 'unixepoch') AS " \
    "created_at, node, journal, epoch, seq, json_extract(event, '$.acting_for') AS " \
    "acting_for, action, actor, json_extract(event, '$.args') AS args, json_extract(event, " \
    "'$.binding_hash') AS binding_hash, json_extract(event, '$.confidence') AS confidence, " \
    "json_extract(event, '$.confidence_used') AS confidence_used, json_extract(CASE WHEN " \
    "instr(event, '\\u0000') = 0 THEN event ELSE replace(replace(event, '\\\\', '\\u005c'), " \
    "'\\u0000', '\\ufffd') END, '$.context') AS context, json_extract(event, '$.count') AS " \
    "count, decision, json_extract(event, '$.engine_version') AS engine_version, event_id, " \
    "json_extract(event, '$.expires_at') AS expires_at, json_extract(event, '$.input_hash') " \
    "AS input_hash, json_extract(event, '$.key_id') AS key_id, kind, json_extract(event, " \
    "'$.latency_ms') AS latency_ms, json_extract(event, '$.mode') AS mode, " \
    "json_extract(event, '$.output_hash') AS output_hash, json_extract(event, " \
    "'$.policy_digest') AS policy_digest, json_extract(event, '$.policy_name') AS " \
    "policy_name, json_extract(event, '$.policy_version') AS policy_version, " \
    "json_extract(event, '$.previous') AS previous, json_extract(event, '$.reason') AS " \
    "reason, json_extract(event, '$.redemption_id') AS redemption_id, json_extract(event, " \
    "'$.request_id') AS request_id, json_extract(event, '$.resolution_note') AS " \
    "resolution_note, json_extract(event, '$.resolved_by') AS resolved_by, " \
    "json_extract(event, '$.resource') AS resource, json_extract(event, " \
    "'$.resource_properties') AS resource_properties, json_extract(event, '$.review_id') AS " \
    "review_id, rule, json_extract(event, '$.safe_args') AS safe_args, json_extract(event, " \
    "'$.safe_tool') AS safe_tool, json_extract(event, '$.scope') AS scope, tenant_id, " \
    "json_extract(event, '$.timestamp') AS timestamp, json_extract(event, '$.token_id') AS " \
    "token_id, trace_id, user_id, json_extract(event, '$.would_have') AS would_have, event"
/* clang-format on */
static const char step_6[] = "DROP VIEW events; CREATE VIEW events AS " EVENTS_6 " FROM records;";

/* Before, an event_id was unique over all tenants (event_key.h). */
static const char step_7[] = "DROP INDEX records_event_id;";
static const char step_7_identity[] =
    "CREATE UNIQUE INDEX records_event_key ON records (" EVENT_KEY ");";
static const char step_7_no_identity[] =
    "CREATE INDEX records_event_key ON records (" EVENT_KEY ");";

/* Members that were added to events. */
static const char step_8[] = "DROP VIEW events; CREATE VIEW events AS " EVENTS_6
                             ", json_extract(event, '$.client_address') AS client_address,"
                             " json_extract(event, '$.input_salt') AS input_salt FROM records;";

/* Counters of the quarantine; and an index of the minutes that retention may remove. */
static const char step_9[] =
    "CREATE TABLE quarantine_size (one INTEGER PRIMARY KEY CHECK (one = 1), row_count INTEGER NOT NULL,"
    " bytes INTEGER NOT NULL, dropped INTEGER NOT NULL);"
    "INSERT INTO quarantine_size SELECT 1, count(*), coalesce(sum(length(event)), 0), 0 FROM quarantine;"
    "CREATE INDEX minutes_last ON minutes (last_id);";

/* Revisions are pairs with a random id (history.h): an engine's revision counts if the store has
 * it. */
static const char step_10[] =
    "ALTER TABLE store ADD COLUMN history_id TEXT NOT NULL DEFAULT '';"
    "CREATE TABLE revisions (number INTEGER PRIMARY KEY, history_id TEXT NOT NULL);"
    "INSERT INTO revisions (number, history_id) SELECT revision, history_id FROM store;"
    "ALTER TABLE followers ADD COLUMN history_id TEXT NOT NULL DEFAULT '';";

/* A member that was added to events. */
static const char step_11[] =
    "DROP VIEW events; CREATE VIEW events AS " EVENTS_6
    ", json_extract(event, '$.client_address') AS client_address,"
    " json_extract(event, '$.input_salt') AS input_salt,"
    " json_extract(event, '$.idempotency_key') AS idempotency_key FROM records;";

/* Two more. */
static const char step_12[] =
    "DROP VIEW events; CREATE VIEW events AS " EVENTS_6
    ", json_extract(event, '$.client_address') AS client_address,"
    " json_extract(event, '$.input_salt') AS input_salt,"
    " json_extract(event, '$.idempotency_key') AS idempotency_key,"
    " json_extract(event, '$.conversation_id') AS conversation_id,"
    " json_extract(event, '$.tool_call_id') AS tool_call_id FROM records;";

/* Messages about reviews (pipeline/notify): a member of events, and what is to be sent. */
static const char step_13[] =
    "DROP VIEW events; CREATE VIEW events AS " EVENTS_6
    ", json_extract(event, '$.client_address') AS client_address,"
    " json_extract(event, '$.input_salt') AS input_salt,"
    " json_extract(event, '$.idempotency_key') AS idempotency_key,"
    " json_extract(event, '$.conversation_id') AS conversation_id,"
    " json_extract(event, '$.tool_call_id') AS tool_call_id,"
    " json_extract(event, '$.notify') AS notify FROM records;"
    "CREATE TABLE announced (tenant_id TEXT NOT NULL, review_id TEXT NOT NULL, channels TEXT NOT NULL,"
    " created_at INTEGER NOT NULL, PRIMARY KEY (tenant_id, review_id)) WITHOUT ROWID;"
    "CREATE TABLE notices (record_id INTEGER NOT NULL, channel TEXT NOT NULL, kind TEXT NOT NULL,"
    " tenant_id TEXT NOT NULL, review_id TEXT NOT NULL, since INTEGER NOT NULL, next_at INTEGER NOT NULL,"
    " tries INTEGER NOT NULL, owner TEXT NOT NULL, error TEXT NOT NULL,"
    " PRIMARY KEY (record_id, channel, kind)) WITHOUT ROWID;"
    "CREATE INDEX notices_channel ON notices (channel, next_at);"
    "CREATE INDEX notices_review ON notices (review_id, channel, record_id);";

/* Sessions of people who signed in (session_store.h); and a member that was added to events. */
static const char step_14[] =
    "CREATE TABLE sessions (hash TEXT PRIMARY KEY, id TEXT NOT NULL UNIQUE, key_id TEXT NOT NULL,"
    " tenant_id TEXT NOT NULL, person TEXT NOT NULL, proof TEXT NOT NULL, client_address TEXT NOT NULL,"
    " created_at INTEGER NOT NULL, seen_at INTEGER NOT NULL, expires_at INTEGER NOT NULL) WITHOUT ROWID;"
    "DROP VIEW events; CREATE VIEW events AS " EVENTS_6
    ", json_extract(event, '$.client_address') AS client_address,"
    " json_extract(event, '$.input_salt') AS input_salt,"
    " json_extract(event, '$.idempotency_key') AS idempotency_key,"
    " json_extract(event, '$.conversation_id') AS conversation_id,"
    " json_extract(event, '$.tool_call_id') AS tool_call_id,"
    " json_extract(event, '$.notify') AS notify,"
    " json_extract(event, '$.proof') AS proof FROM records;";

/* The set of policies and keys is authenticated (set.h). */
static const char step_15[] =
    "ALTER TABLE store ADD COLUMN adopted_at INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE store ADD COLUMN set_history TEXT NOT NULL DEFAULT '';"
    "ALTER TABLE store ADD COLUMN set_mac TEXT NOT NULL DEFAULT '';"
    "ALTER TABLE policy_versions ADD COLUMN mac TEXT;"
    "CREATE TABLE set_rows (kind TEXT NOT NULL, tenant_id TEXT NOT NULL, name TEXT NOT NULL,"
    " digest TEXT NOT NULL, PRIMARY KEY (kind, tenant_id, name)) WITHOUT ROWID;";

/* People who signed in at an identity provider, and the sign-ins that were completed. */
static const char step_16[] =
    "ALTER TABLE sessions ADD COLUMN provider TEXT NOT NULL DEFAULT '';"
    "ALTER TABLE sessions ADD COLUMN subject TEXT NOT NULL DEFAULT '';"
    "ALTER TABLE sessions ADD COLUMN roles INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE sessions ADD COLUMN claims TEXT NOT NULL DEFAULT '[]';"
    "CREATE TABLE sign_ins (hash TEXT PRIMARY KEY, ends_at INTEGER NOT NULL) WITHOUT ROWID;";

/* The kill switch, outside retention (suspension.h), with what the trail has. Only the segments that
 * have such a record are read (audit_index.h). */
static const char step_17[] =
    "CREATE TABLE suspensions (number INTEGER PRIMARY KEY, tenant_id TEXT NOT NULL, actor TEXT NOT NULL,"
    " suspended_at INTEGER, suspended_by TEXT, reason TEXT, resumed_at INTEGER, resumed_by TEXT,"
    " event_id TEXT NOT NULL, UNIQUE (tenant_id, actor));"
    "INSERT INTO suspensions (tenant_id, actor, suspended_at, suspended_by, reason, resumed_at,"
    " resumed_by, event_id) SELECT tenant_id, actor,"
    " CASE kind WHEN 'actor.suspended' THEN timestamp END,"
    " CASE kind WHEN 'actor.suspended' THEN json_extract(event, '$.resolved_by') END,"
    " CASE kind WHEN 'actor.suspended' THEN json_extract(event, '$.reason') END,"
    " CASE kind WHEN 'actor.resumed' THEN timestamp END,"
    " CASE kind WHEN 'actor.resumed' THEN json_extract(event, '$.resolved_by') END, event_id"
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
    "ALTER TABLE records ADD COLUMN restored INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE streams ADD COLUMN authenticated INTEGER NOT NULL DEFAULT 1;"
    "UPDATE streams SET authenticated = 0;"
    "CREATE TABLE checkpoints (node TEXT NOT NULL, journal TEXT NOT NULL, base INTEGER NOT NULL,"
    " end_seq INTEGER NOT NULL, from_seq INTEGER NOT NULL, frontier TEXT NOT NULL, note TEXT NOT NULL,"
    " created_at INTEGER NOT NULL, PRIMARY KEY (node, journal, base, end_seq)) WITHOUT ROWID;"
    "CREATE TABLE engine_keys (node TEXT NOT NULL, journal TEXT NOT NULL, public_key TEXT NOT NULL,"
    " created_at INTEGER NOT NULL, created_by TEXT NOT NULL, mac TEXT NOT NULL,"
    " PRIMARY KEY (node, journal, public_key)) WITHOUT ROWID;"
    "CREATE TABLE removals (number INTEGER PRIMARY KEY, node TEXT NOT NULL, journal TEXT NOT NULL,"
    " from_seq INTEGER NOT NULL, end_seq INTEGER NOT NULL, note TEXT NOT NULL, created_at INTEGER NOT NULL);"
    "CREATE INDEX removals_stream ON removals (node, journal, end_seq);";

static const char step_19[] =
    "CREATE TABLE anchors (name TEXT NOT NULL, node TEXT NOT NULL, journal TEXT NOT NULL,"
    " base INTEGER NOT NULL, end_seq INTEGER NOT NULL, anchored_at INTEGER NOT NULL,"
    " PRIMARY KEY (name, node, journal, base)) WITHOUT ROWID;";

/* A key's row may have `rates` (access/key.h). A program that does not read them would drop them with
 * its next change of the row. */
static const char step_20[] = "";

/* A key that an admin has withdrawn counts for the records before this one. */
static const char step_21[] = "ALTER TABLE engine_keys ADD COLUMN distrusted_from INTEGER;";

/* PostgreSQL gets the index that records has here since step 1. */
static const char step_22[] = "";

const struct schema_step schema_sqlite[SCHEMA_NEWEST] = {
    {step_1, step_1_identity, step_1_no_identity},
    {step_2, NULL, NULL},
    {step_3, NULL, NULL},
    {step_4, NULL, NULL},
    {step_5, NULL, NULL},
    {step_6, NULL, NULL},
    {step_7, step_7_identity, step_7_no_identity},
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
    {step_20, NULL, NULL},
    {step_21, NULL, NULL},
    {step_22, NULL, NULL},
};

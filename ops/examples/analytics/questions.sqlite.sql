-- questions.sqlite.sql - what people ask an audit trail, for the SQLite store.
--
--   sqlite3 -readonly -box -cmd ".parameter set :tenant \"'default'\"" -cmd ".parameter set :from \"'2026-11-20'\"" \
--           -cmd ".parameter set :to \"'2026-11-21'\"" -cmd ".parameter set :actor \"'invoice_bot'\"" \
--           platform.db < questions.sqlite.sql
--
-- Parameters that are not set: tenant default, the last 24 hours, the actor who did most. Values are SQL, hence
-- their own quotes: 2026-11-20 without them is a sum, and refused. Times are UTC; from is inclusive, to exclusive.
-- Everything below the line is plain SELECTs over the view `asked`, to be copied one by one; it has the columns
-- of the view `events` (schemas/store.sql), which stay as they are. The platform may run meanwhile.
-- questions.postgres.sql asks the same of PostgreSQL.

.bail on
CREATE TEMP TABLE bounds (
    tenant TEXT, first_time TEXT, last_time TEXT, actor TEXT,
    CONSTRAINT "from and to are times in quotes" CHECK (first_time IS NOT NULL AND last_time IS NOT NULL)
);
INSERT INTO bounds SELECT
    coalesce(:tenant, 'default'),
    strftime('%Y-%m-%dT%H:%M:%fZ', CASE typeof(:from) WHEN 'null' THEN datetime('now', '-1 day') WHEN 'text' THEN :from END),
    strftime('%Y-%m-%dT%H:%M:%fZ', CASE typeof(:to) WHEN 'null' THEN datetime('now', '+1 minute') WHEN 'text' THEN :to END),
    :actor;

-- The index by minute says between which ids the asked time lies: only these rows are read.
CREATE TEMP TABLE ids AS SELECT min(first_id) AS first_id, max(last_id) AS last_id
    FROM bounds JOIN minutes ON tenant_id = tenant
    WHERE minute BETWEEN unixepoch(first_time) / 60 AND unixepoch(last_time) / 60;

CREATE TEMP VIEW asked AS SELECT * FROM main.events
    WHERE id BETWEEN (SELECT first_id FROM ids) AND (SELECT last_id FROM ids) AND tenant_id = (SELECT tenant FROM bounds)
      AND timestamp >= (SELECT first_time FROM bounds) AND timestamp < (SELECT last_time FROM bounds);

-- Each review once: when it was asked for, and how its waiting ended; where that was later than is asked for, it
-- is pending. (One approval of several that were needed, and then nobody, counts as approved: an event does not
-- say how many were needed.)
CREATE TEMP VIEW waited AS SELECT
    asked.review_id, asked.timestamp AS enqueued_at, coalesce(asked.actor, asked.user_id) AS who, asked.action, asked.rule,
    coalesce(substr(ended.kind, 8), 'pending') AS outcome, ended.resolved_by, ended.timestamp AS ended_at,
    round((julianday(ended.timestamp) - julianday(asked.timestamp)) * 86400, 3) AS seconds
    FROM asked LEFT JOIN (
        SELECT *, row_number() OVER (
            PARTITION BY review_id
            ORDER BY CASE kind WHEN 'review.denied' THEN 1 WHEN 'review.cancelled' THEN 1 WHEN 'review.approved' THEN 2 ELSE 3 END,
                     timestamp DESC) AS place
        FROM asked WHERE kind IN ('review.approved', 'review.denied', 'review.cancelled', 'review.expired')
    ) AS ended ON ended.review_id = asked.review_id AND ended.place = 1
    WHERE asked.kind = 'review.enqueued';

----------------------------------------------------------------------------------------------------

.print '# 1 Who was denied what?'
SELECT coalesce(actor, user_id) AS who, action, rule, count(*) AS times, max(timestamp) AS last
FROM asked WHERE kind = 'decision' AND mode = 'live' AND decision = 'deny'
GROUP BY 1, 2, 3 ORDER BY times DESC, 1, 2, 3 LIMIT 100;

.print '# 2 Which rules decide most?'
SELECT rule, policy_name, decision, count(*) AS times, round(100.0 * count(*) / sum(count(*)) OVER (), 1) AS percent
FROM asked WHERE kind = 'decision' AND mode = 'live'
GROUP BY 1, 2, 3 ORDER BY times DESC, 1, 2, 3 LIMIT 100;

.print '# 3 How long did each review wait? (the longest first; those that still wait before all)'
SELECT review_id, who, action, outcome, resolved_by, enqueued_at, seconds
FROM waited ORDER BY seconds IS NOT NULL, seconds DESC, enqueued_at LIMIT 100;

.print '# 4 And on the whole?'
SELECT outcome, count(*) AS reviews, round(avg(seconds), 3) AS mean_seconds, max(seconds) AS longest_seconds
FROM waited GROUP BY 1 ORDER BY 1;

.print '# 5 What did each version of a policy decide?'
SELECT policy_name, policy_version, decision, count(*) AS times, min(timestamp) AS first, max(timestamp) AS last
FROM asked WHERE kind = 'decision' AND mode = 'live'
GROUP BY 1, 2, 3 ORDER BY policy_name IS NOT NULL, 1, 2, 3;

.print '# 6 What did one actor do all day?'
SELECT timestamp, kind, action, decision, rule, resolved_by, trace_id
FROM asked WHERE coalesce(mode, 'live') = 'live' AND actor = coalesce(
    (SELECT actor FROM bounds),
    (SELECT actor FROM asked WHERE kind = 'decision' AND actor IS NOT NULL GROUP BY 1 ORDER BY count(*) DESC, 1 LIMIT 1))
ORDER BY timestamp, id LIMIT 1000;

.print '# 7 What was decided, hour by hour?'
SELECT substr(timestamp, 1, 13) AS hour,
       count(*) FILTER (WHERE decision = 'allow') AS allow, count(*) FILTER (WHERE decision = 'deny') AS deny,
       count(*) FILTER (WHERE decision = 'human_review') AS human_review, count(*) FILTER (WHERE decision = 'compute') AS compute,
       count(*) AS decisions, count(DISTINCT coalesce(actor, user_id)) AS who
FROM asked WHERE kind = 'decision' AND mode = 'live' GROUP BY 1 ORDER BY 1;

.print '# 8 What was computed to a safe call instead, and what was recorded masked?'
SELECT action, safe_tool, count(*) FILTER (WHERE decision = 'compute') AS computed,
       count(*) FILTER (WHERE is_masked) AS masked, count(DISTINCT actor) AS actors
FROM (SELECT *, instr(event, '"[masked]"') + instr(event, '{"masked":true}') > 0 AS is_masked FROM asked) AS asked
WHERE kind = 'decision' AND mode = 'live' AND (decision = 'compute' OR is_masked)
GROUP BY 1, 2 ORDER BY computed DESC, masked DESC, 1;

.print '# 9 Who minted and revoked tokens, for whom?'
SELECT asked.kind, coalesce(keys.name, asked.key_id) AS key, asked.actor, asked.acting_for, count(*) AS tokens
FROM asked LEFT JOIN keys ON keys.id = asked.key_id
WHERE kind IN ('token.minted', 'token.revoked', 'token.rejected')
GROUP BY 1, 2, 3, 4 ORDER BY 1, tokens DESC, 2, 3;

.print '# 10 Whose limits were over?'
SELECT rule, coalesce(actor, user_id) AS who, decision, count(*) AS times, min(timestamp) AS first, max(timestamp) AS last
FROM asked WHERE kind = 'decision' AND mode = 'live' AND rule LIKE 'limit:%'
GROUP BY 1, 2, 3 ORDER BY times DESC, 1, 2;

-- The engine refuses a review by whoever asked, and a refusal to a reviewer leaves no event; so `own`
-- is 0, and any other number wants a look.
.print '# 11 Who resolved how many reviews, how fast, and any of their own?'
SELECT resolved_by, count(*) FILTER (WHERE outcome = 'approved') AS approved, count(*) FILTER (WHERE outcome = 'denied') AS denied,
       round(avg(seconds), 3) AS mean_seconds, count(*) FILTER (WHERE resolved_by = who) AS own
FROM waited WHERE resolved_by IS NOT NULL AND outcome IN ('approved', 'denied') GROUP BY 1 ORDER BY 2 DESC, 1;

.print '# 12 How many approvals were used?'
SELECT count(DISTINCT review_id) FILTER (WHERE kind = 'review.approved') AS approved,
       count(DISTINCT review_id) FILTER (WHERE kind = 'review.redeemed') AS redeemed
FROM asked WHERE kind IN ('review.approved', 'review.redeemed');

.print '# 13 What would shadow documents change?'
SELECT json_extract(would_have, '$.policy_name') AS policy, json_extract(would_have, '$.rule') AS rule, decision AS now,
       json_extract(would_have, '$.decision') AS then_, count(*) AS times
FROM asked WHERE kind = 'decision' AND mode = 'live' AND would_have IS NOT NULL
GROUP BY 1, 2, 3, 4 ORDER BY times DESC, 1, 2;

.print '# 14 Who changed what is allowed?'
SELECT timestamp, kind, actor AS who, coalesce(json_extract(event, '$.resource.id'), actor) AS what, policy_version, coalesce(resolved_by, '') AS by, reason
FROM asked WHERE kind IN ('policy.put', 'policy.deleted', 'policy.rolled_back', 'key.created', 'key.revoked', 'actor.suspended', 'actor.resumed')
ORDER BY timestamp, id;

.print '# 15 Who came without a valid credential?'
SELECT kind, reason, coalesce(key_id, '') AS key_id, sum(count) AS times, max(timestamp) AS last
FROM asked WHERE kind IN ('auth.failed', 'token.rejected') GROUP BY 1, 2, 3 ORDER BY times DESC;

-- questions.postgres.sql - what people ask an audit trail, for the PostgreSQL store.
--
--   psql "$URL" -v tenant=default -v from=2026-11-20 -v to=2026-11-21 -v actor=invoice_bot -f questions.postgres.sql
--
-- Variables that are not set: tenant default, the last 24 hours, the actor who did most. Times are UTC; from is
-- inclusive, to exclusive. Everything below the line is plain SELECTs over the view `asked`, to be copied
-- one by one; it has the columns of the view `events` (schemas/store.postgres.sql), which stay as they are. A role
-- that may make temporary tables and read `events`, `minutes` and, for question 9, `keys (id, name)` is enough.
-- questions.sqlite.sql asks the same of SQLite.

\set ON_ERROR_STOP on
\if :{?tenant} \else \set tenant default \endif
\if :{?from} \else \set from '' \endif
\if :{?to} \else \set to '' \endif
\if :{?actor} \else \set actor '' \endif
\o /dev/null
SET client_min_messages = warning;
SET TIME ZONE 'UTC';

CREATE TEMP TABLE bounds AS SELECT
    :'tenant'::text AS tenant,
    coalesce(nullif(:'from', '')::timestamptz, now() - interval '1 day') AS first_time,
    coalesce(nullif(:'to', '')::timestamptz, now() + interval '1 minute') AS last_time,
    nullif(:'actor', '')::text AS actor;

-- The index by minute says between which ids the asked time lies: only these rows are read.
CREATE TEMP TABLE ids AS SELECT min(first_id) AS first_id, max(last_id) AS last_id
    FROM bounds JOIN minutes ON tenant_id = tenant
    WHERE minute BETWEEN floor(extract(epoch FROM first_time) / 60) AND floor(extract(epoch FROM last_time) / 60);

CREATE TEMP VIEW asked AS SELECT * FROM events
    WHERE id BETWEEN (SELECT first_id FROM ids) AND (SELECT last_id FROM ids) AND tenant_id = (SELECT tenant FROM bounds)
      AND timestamp >= (SELECT first_time FROM bounds) AND timestamp < (SELECT last_time FROM bounds);

-- What happened to reviews, read once; and ANALYZE tells how much it is, so that nothing is joined row by row.
CREATE TEMP TABLE happened AS SELECT review_id, kind, timestamp, coalesce(actor, user_id) AS who, action, rule, resolved_by
    FROM asked WHERE kind IN ('review.enqueued', 'review.approved', 'review.denied', 'review.cancelled', 'review.expired');
ANALYZE happened;

-- Each review once: when it was asked for, and how its waiting ended; where that was later than is asked for, it
-- is pending. (One approval of several that were needed, and then nobody, counts as approved: an event does not
-- say how many were needed.)
CREATE TEMP VIEW waited AS SELECT
    begun.review_id, begun.timestamp AS enqueued_at, begun.who, begun.action, begun.rule,
    coalesce(substr(ended.kind, 8), 'pending') AS outcome, ended.resolved_by, ended.timestamp AS ended_at,
    round(extract(epoch FROM ended.timestamp - begun.timestamp), 3) AS seconds
    FROM happened AS begun LEFT JOIN (
        SELECT *, row_number() OVER (
            PARTITION BY review_id
            ORDER BY CASE kind WHEN 'review.denied' THEN 1 WHEN 'review.cancelled' THEN 1 WHEN 'review.approved' THEN 2 ELSE 3 END,
                     timestamp DESC) AS place
        FROM happened WHERE kind <> 'review.enqueued'
    ) AS ended ON ended.review_id = begun.review_id AND ended.place = 1
    WHERE begun.kind = 'review.enqueued';

----------------------------------------------------------------------------------------------------

\o

\echo '# 1 Who was denied what?'
SELECT coalesce(actor, user_id) AS who, action, rule, count(*) AS times, max(timestamp) AS last
FROM asked WHERE kind = 'decision' AND mode = 'live' AND decision = 'deny'
GROUP BY 1, 2, 3 ORDER BY times DESC, 1, 2, 3 LIMIT 100;

\echo '# 2 Which rules decide most?'
SELECT rule, policy_name, decision, count(*) AS times, round(100.0 * count(*) / sum(count(*)) OVER (), 1) AS percent
FROM asked WHERE kind = 'decision' AND mode = 'live'
GROUP BY 1, 2, 3 ORDER BY times DESC, 1, 2, 3 LIMIT 100;

\echo '# 3 How long did each review wait? (the longest first; those that still wait before all)'
SELECT review_id, who, action, outcome, resolved_by, enqueued_at, seconds
FROM waited ORDER BY seconds IS NOT NULL, seconds DESC, enqueued_at LIMIT 100;

\echo '# 4 And on the whole?'
SELECT outcome, count(*) AS reviews, round(avg(seconds), 3) AS mean_seconds, max(seconds) AS longest_seconds
FROM waited GROUP BY 1 ORDER BY 1;

\echo '# 5 What did each version of a policy decide?'
SELECT policy_name, policy_version, decision, count(*) AS times, min(timestamp) AS first, max(timestamp) AS last
FROM asked WHERE kind = 'decision' AND mode = 'live'
GROUP BY 1, 2, 3 ORDER BY policy_name IS NOT NULL, 1, 2, 3;

\echo '# 6 What did one actor do all day?'
SELECT timestamp, kind, action, decision, rule, resolved_by, trace_id
FROM asked WHERE coalesce(mode, 'live') = 'live' AND actor = coalesce(
    (SELECT actor FROM bounds),
    (SELECT actor FROM asked WHERE kind = 'decision' AND actor IS NOT NULL GROUP BY 1 ORDER BY count(*) DESC, 1 LIMIT 1))
ORDER BY timestamp, id LIMIT 1000;

\echo '# 7 What was decided, hour by hour?'
SELECT to_char(timestamp, 'YYYY-MM-DD"T"HH24') AS hour,
       count(*) FILTER (WHERE decision = 'allow') AS allow, count(*) FILTER (WHERE decision = 'deny') AS deny,
       count(*) FILTER (WHERE decision = 'human_review') AS human_review, count(*) FILTER (WHERE decision = 'compute') AS compute,
       count(*) AS decisions, count(DISTINCT coalesce(actor, user_id)) AS who
FROM asked WHERE kind = 'decision' AND mode = 'live' GROUP BY 1 ORDER BY 1;

\echo '# 8 What was computed to a safe call instead, and what was recorded masked?'
SELECT action, safe_tool, count(*) FILTER (WHERE decision = 'compute') AS computed,
       count(*) FILTER (WHERE is_masked) AS masked, count(DISTINCT actor) AS actors
FROM (SELECT *, position('"[masked]"' IN event) + position('{"masked":true}' IN event) > 0 AS is_masked FROM asked) AS asked
WHERE kind = 'decision' AND mode = 'live' AND (decision = 'compute' OR is_masked)
GROUP BY 1, 2 ORDER BY computed DESC, masked DESC, 1;

\echo '# 9 Who minted and revoked tokens, for whom?'
SELECT asked.kind, coalesce(keys.name, asked.key_id) AS key, asked.actor, asked.acting_for, count(*) AS tokens
FROM asked LEFT JOIN keys ON keys.id = asked.key_id
WHERE kind IN ('token.minted', 'token.revoked', 'token.rejected')
GROUP BY 1, 2, 3, 4 ORDER BY 1, tokens DESC, 2, 3;

\echo '# 10 Whose limits were over?'
SELECT rule, coalesce(actor, user_id) AS who, decision, count(*) AS times, min(timestamp) AS first, max(timestamp) AS last
FROM asked WHERE kind = 'decision' AND mode = 'live' AND rule LIKE 'limit:%'
GROUP BY 1, 2, 3 ORDER BY times DESC, 1, 2;

-- The engine refuses a review by whoever asked, and a refusal to a reviewer leaves no event; so `own`
-- is 0, and any other number wants a look.
\echo '# 11 Who resolved how many reviews, how fast, and any of their own?'
SELECT resolved_by, count(*) FILTER (WHERE outcome = 'approved') AS approved, count(*) FILTER (WHERE outcome = 'denied') AS denied,
       round(avg(seconds), 3) AS mean_seconds, count(*) FILTER (WHERE resolved_by = who) AS own
FROM waited WHERE resolved_by IS NOT NULL AND outcome IN ('approved', 'denied') GROUP BY 1 ORDER BY 2 DESC, 1;

\echo '# 12 How many approvals were used?'
SELECT count(DISTINCT review_id) FILTER (WHERE kind = 'review.approved') AS approved,
       count(DISTINCT review_id) FILTER (WHERE kind = 'review.redeemed') AS redeemed
FROM asked WHERE kind IN ('review.approved', 'review.redeemed');

\echo '# 13 What would shadow documents change?'
SELECT would_have ->> 'policy_name' AS policy, would_have ->> 'rule' AS rule, decision AS now,
       would_have ->> 'decision' AS then_, count(*) AS times
FROM asked WHERE kind = 'decision' AND mode = 'live' AND would_have IS NOT NULL
GROUP BY 1, 2, 3, 4 ORDER BY times DESC, 1, 2;

\echo '# 14 Who changed what is allowed?'
SELECT timestamp, kind, actor AS who, coalesce(resource ->> 'id', actor) AS what, policy_version, coalesce(resolved_by, '') AS by, reason
FROM asked WHERE kind IN ('policy.put', 'policy.deleted', 'policy.rolled_back', 'key.created', 'key.revoked', 'actor.suspended', 'actor.resumed')
ORDER BY timestamp, id;

\echo '# 15 Who came without a valid credential?'
SELECT kind, reason, coalesce(key_id, '') AS key_id, sum(count) AS times, max(timestamp) AS last
FROM asked WHERE kind IN ('auth.failed', 'token.rejected') GROUP BY 1, 2, 3 ORDER BY times DESC;

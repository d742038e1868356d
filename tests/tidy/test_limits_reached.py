"""Each row of docs/reference/limits.md is reached by a test, which this table names.

A row without a place here fails, and so does a place whose row or whose test is gone.
"""

import pathlib
import re

TOP = pathlib.Path(__file__).resolve().parents[2]
PAGE = "e2e/test_limits_page.py"
ENGINE = f"{PAGE}::test_one_more_than_a_limit_of_the_engine_is_refused_as_the_page_has_it"
POLICY = f"{PAGE}::test_one_more_than_a_limit_of_policies_is_refused_as_the_page_has_it"
SIZES = f"{PAGE}::test_bodies_heads_and_targets_have_the_sizes_that_the_page_has"
BODIES = f"{PAGE}::test_bodies_of_documents_and_records_have_the_sizes_that_the_page_has"
STORE = f"{PAGE}::test_the_store_takes_as_much_as_the_page_has"
START = f"{PAGE}::test_an_engine_does_not_start_beyond_the_bounds_of_an_option"
NOTES = f"{PAGE}::test_notes_and_pages_of_reviews_are_as_long_as_the_page_has_it"
WAITS = f"{PAGE}::test_pages_and_waits_are_as_long_as_the_page_has_it"
SHARES = "e2e/test_shares.py::test_a_tenant_that_fills_a_table_keeps_no_other_out"
FALSE = "e2e/test_overload.py::test_a_connection_with_false_credentials_waits_and_then_ends"
PROXY = "e2e/test_overload.py::test_behind_a_proxy_the_client_is_slowed_and_not_its_neighbours"
RETRY = "unit/shards/test_retry.c::keys_are_bounded_in_all_and_by_tenant_and_asker_and_bytes"
LOAD = "unit/policy/test_load.c::limits_bound_a_document"
MANY = f"{PAGE}::test_a_document_of_one_more_is_refused_as_the_page_has_it"
NONSENSE = "integration/test_redis.py::test_a_redis_that_answers_nonsense_is_away_and_costs_nothing"
OIDC = "unit/oidc/test_verify.c::keys_are_used_for_a_day_and_asked_for_every_ten_seconds"

REACHED = {
    "body of a request": SIZES,
    "body of `PUT /api/v1/policies/{name}`": BODIES,
    "body of `POST /api/v1/policies:apply`": BODIES,
    "body of `POST /api/v1/audit/ingest`": BODIES,
    "request line and headers together": SIZES,
    "path and query": SIZES,
    "levels of nesting in a JSON body": ENGINE,
    "characters of a name: actor, user, action, part of a resource, tenant": ENGINE,
    "characters of `tool` on the tool route, and of a safe tool": ENGINE,
    "bytes of a trace id": ENGINE,
    "globs in a scope": ENGINE,
    "requests of a batch, AuthZEN evaluations of one request": ENGINE,
    "items of a page (`limit`)": WAITS,
    "items of a page without `limit`": NOTES,
    "events in one answer about a trace": "e2e/test_ingest.py::test_a_trace_of_many_events_says_that_it_is_not_all_and_goes_on",
    "time that the Idempotency-Key of a mint or a redemption is known":
        "unit/shards/test_token.c::an_expired_token_is_still_what_its_retry_gets_for_a_day",
    "client connections of one program": "unit/http/test_server.c::one_too_many_is_told_so",
    "unfinished TLS handshakes of one thread": "e2e/test_tls.py::test_many_handshakes_hold_little_and_leave_others_served",
    "time that requests of one turn may wait for a reactor with more of them than it can handle":
        "e2e/test_overload.py::test_votes_and_what_stops_something_come_through_an_overload",
    "percent of that time for others, where one key or tenant takes more than half of it":
        "unit/engine/test_overload.c::the_key_that_takes_most_is_refused_first",
    "false credentials of one connection, before its next one is delayed": FALSE,
    "false credentials in a row on one connection": FALSE,
    "false credentials of one address (IPv6: /64) within a few seconds, before its next one is delayed": PROXY,
    "time for a request's head, its body": "unit/http/test_waiting.c::a_request_that_does_not_come_in_time_is_refused",
    "unread replies of one connection": "unit/http/test_waiting.c::a_slow_reader_gets_everything_and_holds_little",
    "large replies and arriving bodies, of all clients of one program": "e2e/test_http.py::test_large_answers_that_nobody_reads_leave_room_for_others",
    "requests that one program forwards to the other at a time": "e2e/test_http.py::test_who_waits_through_the_platform_leaves_others_their_connections",
    "calls of sessions that one engine accepts within a minute": "unit/access/test_assertion.c::a_minute_has_room_for_so_many",
    "operations of one reactor that wait for other reactors": "unit/engine/test_bounds.c::so_many_are_away",
    "reactors of one engine": START,
    "one audit event": "unit/engine/test_decide.c::a_large_event_loses_args_then_context_then_properties",
    "policies of one tenant": "unit/platform/test_policies.c::a_tenant_has_as_many_policies_as_engines_take_and_no_more",
    "active policies of one tenant together": STORE,
    "active policies of all tenants together": STORE,
    "rules of one policy": MANY,
    "patterns of one policy": MANY,
    "levels of nesting of a policy": LOAD,
    "patterns of one selector": POLICY,
    "bytes of a pattern": POLICY,
    "stars of a pattern": POLICY,
    "roles of one policy": POLICY,
    "names of claims of one role": "unit/policy/test_load.c::roles_name_people_and_claims",
    "values of one name of claims": POLICY,
    "masks of one policy": POLICY,
    "tests of one policy": POLICY,
    "steps of a policy's tests together": "unit/policy/test_bounds.c::tests_of_a_document_are_bounded_together",
    "characters of a condition": POLICY,
    "regular expressions of one policy": POLICY,
    "steps of one evaluation of a condition": "unit/cel/test_bounds.c::nested_loops_end_at_the_cost_limit",
    "steps of all conditions of one decision": "e2e/test_long_questions.py::test_a_decision_that_costs_too_much_is_denied_unless_the_option_permits_it",
    "steps that `policy.steps` gives them at most": START,
    "explanations, dry runs and long lists of one tenant that wait or run, on one engine":
        "e2e/test_long_questions.py::test_a_tenant_may_have_a_few_explanations_at_a_time",
    "explanations, dry runs and long lists of all tenants that wait or run, on one engine":
        "unit/engine/test_offload.c::all_tenants_may_have_so_many",
    "time that an explanation, a dry run or a long list waits for those before it":
        "unit/engine/test_offload.c::what_has_waited_too_long_is_not_run",
    "keys of one tenant": STORE,
    "keys of all tenants": STORE,
    "stored keys of one tenant": STORE,
    "stored keys of all tenants": STORE,
    "overlap of a rotation": f"{PAGE}::test_a_rotation_overlaps_for_as_long_as_the_page_has_it",
    "sessions of one person by one key or provider": "e2e/test_sessions.py::test_one_more_session_than_a_person_may_have_ends_the_oldest",
    "verified claims of one person": "unit/oidc/test_verify.c::a_person_with_too_many_groups_is_refused",
    "bytes of a verified claim's name, of its value": "unit/access/test_assertion.c::claims_have_bounds",
    "verified claims of one person together": "unit/access/test_assertion.c::claims_have_bounds",
    "sessions of all": "unit/ingest/test_sessions.c::sessions_that_are_over_make_room",
    "time that a revoked or expired key is listed": "e2e/test_keys.py::test_a_key_that_ended_a_month_ago_is_forgotten",
    "engines that wait at one platform for the next bundle, on 75 % of its connections at most":
        "e2e/test_http.py::test_engines_that_wait_for_news_leave_others_their_connections",
    "bytes of a provider's token": "unit/oidc/test_jwks.c::a_token_of_another_form_is_refused",
    "one answer of a provider": "e2e/test_oidc.py::test_a_provider_that_answers_wrongly_is_not_used_and_healthz_says_why",
    "time that a sign-in may take, from the button to the session": "e2e/test_sign_in.py::test_an_answer_is_refused",
    "keys of one provider": "unit/oidc/test_jwks.c::no_more_keys_are_taken_than_the_limit",
    "time that keys are used while their provider does not answer": OIDC,
    "time between two fetches because of an unknown key": OIDC,
    "difference between the clocks of provider and platform": "unit/oidc/test_verify.c::times_may_differ_by_the_skew_only",
    "live tokens of one engine": SHARES,
    "lifetime of a token": ENGINE,
    "uses of a token (`max_uses`)": ENGINE,
    "bytes of a token": "unit/shards/test_token.c::a_scope_too_large_for_a_record_is_refused_and_the_shard_lives",
    "age of a signing key": "e2e/test_tokens.py::test_a_new_signing_key_is_told_before_it_signs_and_the_old_one_verifies_on",
    "pending reviews of one actor or user": "e2e/test_queue.py::test_a_flood_of_reviews_of_one_actor_ends_in_a_limit",
    "reviews of one engine, pending and ended": SHARES,
    "memory of these reviews": "unit/shards/test_shares.c::memory_has_the_same_parts",
    "time that an ended review is kept": "unit/shards/test_queue.c::what_ended_is_forgotten_after_a_day",
    "approvals of one rule": POLICY,
    "characters of a note": NOTES,
    "time of one wait for a review": WAITS,
    "clients that wait for one review": "unit/shards/test_queue.c::too_many_may_not_wait_on_one_review",
    "clients that wait for reviews, on one reactor": "e2e/test_queue.py::test_who_waits_leaves_others_their_connections",
    "channels that one rule notifies": POLICY,
    "counters of one engine": SHARES,
    "window": POLICY,
    "`count`": POLICY,
    "limits that apply to one request": "e2e/test_decisions.py::test_more_limits_than_can_be_counted_at_once_are_a_deny",
    "time that the Idempotency-Key of a decision is known": RETRY,
    "such keys of one engine": SHARES,
    "memory of the decisions kept with them": RETRY,
    "equal requests that wait for the first with their key": RETRY,
    "a tenant's part of tokens, reviews, counters, Idempotency-Keys and waits, if another tenant has asked for such a place within a day": SHARES,
    "a key's part of what its tenant has of these, if another key of the tenant has asked within a day": SHARES,
    "`Retry-After` of these refusals": SHARES,
    "requests a second of a key, of a tenant; at the platform reads only": "e2e/test_rates.py::test_a_batch_is_paid_for_before_the_next_request",
    "time of an engine's threads, in each second, for a key, for a tenant": "e2e/test_rates.py::test_time_of_the_engines_threads_is_measured",
    "bytes of records a day, at one engine, of a key, of a tenant":
        "e2e/test_rates.py::test_a_tenant_that_is_over_keeps_no_other_out_and_can_be_stopped",
    "queries of the audit trail a minute of a key, of a tenant": "e2e/test_rates.py::test_audit_queries_have_a_rate_by_key_and_by_tenant",
    "connections at a time of a key, of a tenant": "e2e/test_rates.py::test_connections_are_counted_while_they_last",
    "the largest of these": START,
    "keys and tenants with a rate that have used something within its window, at one program":
        "unit/access/test_rates.c::names_beyond_all_places_share_one_meter",
    "suspended actors of one engine": "unit/shards/test_actor.c::no_more_than_so_many_may_be_suspended",
    "lines of an ingest batch, events of a post": "unit/ingest/test_stream.c::lines_without_end_are_refused_with_the_lines_number",
    "invalid or contradicting lines of a batch": "unit/ingest/test_stream.c::wrong_lines_are_quarantined_up_to_a_number",
    "rows in quarantine": "unit/ingest/test_quarantine.c::the_oldest_make_way_for_new_rows",
    "bytes in quarantine": "unit/ingest/test_quarantine.c::so_they_do_where_they_are_large",
    "age of rows in quarantine": "unit/ingest/test_quarantine.c::what_is_old_goes_by_handfuls_and_the_rest_stays",
    "streams (journals) of one node": "unit/ingest/test_streams.c::a_node_that_is_full_refuses_new_streams_and_no_other",
    "streams of all nodes": "unit/ingest/test_streams.c::all_nodes_together_have_a_bound_too",
    "age of audit events": "unit/ingest/test_retention.c::many_old_events_are_dropped_by_the_newest_ones_clock",
    "time that a record waits for a disk that does nothing":
        "integration/test_faults.py::test_a_disk_that_stands_still_is_a_polite_503_and_goes_on_by_itself",
    "elements of an answer": NONSENSE,
    "bytes of an answer's texts": NONSENSE,
    "age of confirmed journal segments": "unit/journal/test_scribe.c::a_disk_without_room_for_a_spare_fills_the_journal_and_recovers_by_itself",
    "use of the journal's file system": "unit/journal/test_scribe.c::ninety_five_percent_used_is_full_for_ordinary_records",
    "percent of a reactor's time for false credentials":
        "unit/api/test_strangers.c::each_kind_has_its_share_of_the_time",
    "percent of a reactor's time for requests that need no credential":
        "unit/api/test_strangers.c::each_kind_has_its_share_of_the_time",
    "such waiting requests that one turn handles, of each of the two kinds":
        "unit/api/test_strangers.c::a_turn_handles_so_many_that_wait",
    "requests without a known credential that wait, on one reactor; three quarters of them from sources of false ones":
        "unit/api/test_strangers.c::so_many_wait_and_three_quarters_of_them_for_false_ones",
    "this delay of one request":
        "unit/api/test_strangers.c::the_delay_does_not_become_longer_than_the_longest",
    "addresses with false credentials that one reactor remembers":
        "unit/api/test_strangers.c::so_many_addresses_are_remembered",
    "counters of shadow documents of one engine":
        "e2e/test_shares.py::test_a_full_table_of_shadow_counts_shows_requests_as_let_through",
    "bearer tokens that are kept as verified": "unit/oidc/test_verify.c::so_many_bearer_tokens_are_kept",
    "messages that wait on one channel of notifications": "unit/notify/test_notice_store.c::so_many_messages_wait_on_a_channel",
    "time that a message is tried": "unit/notify/test_notice_store.c::a_message_is_tried_for_so_long",
    "open reviews whose channels get a message about their end": "unit/notify/test_notice_store.c::so_many_reviews_are_followed_up",
    "codes of sign-ins that are exchanged at a time": "unit/oidc/test_exchange.c::so_many_codes_are_exchanged_at_a_time",
}


def rows():
    page = (TOP / "docs/reference/limits.md").read_text()
    found = re.findall(r"^\| [^|]+ \| ([^|]+) \| [^|]+ \| [^|]+ \| [^|]* \|$", page, re.M)
    return [name.strip() for name in found if name.strip() not in ("limit", "---")]


def test_each_limit_of_the_page_is_reached_by_a_test():
    assert len(rows()) > 100
    assert set(rows()) == set(REACHED), f"without a test: {set(rows()) - set(REACHED)}; no row: {set(REACHED) - set(rows())}"


def test_each_test_that_reaches_a_limit_exists():
    gone = []
    for place in sorted(set(REACHED.values())):
        path, name = place.split("::")
        word = "def" if path.endswith(".py") else "static void"
        if not re.search(rf"^{word} {name}\(", (TOP / "tests" / path).read_text(), re.M):
            gone.append(place)
    assert not gone, gone


def test_the_rows_of_the_parametrised_tests_are_in_their_tables():
    text = (TOP / "tests" / PAGE).read_text()
    missing = [name for name, place in REACHED.items() if place in (ENGINE, POLICY, MANY, STORE) and f'"{name}"' not in text]
    assert not missing, missing

/* planted.h - deliberate bugs, so that the tests can show that they find them.
 *
 * `if (planted("no_crc")) …` is the constant false in released programs. Built with
 * WRIT_PLANTED_BUGS (the dev preset) it is true when the environment variable WRIT_BUG names it;
 * the variable is read once, at the first call. Any thread. The names in use:
 *
 *   answer_before_sync   the journal publishes its durable mark before it syncs
 *   no_crc               frames are accepted without a check of their checksums
 *   sync_error_ignored   a failed sync counts as done
 *   short_write_ignored  a short pwrite counts as complete
 *   offset_apart         the consumer commits Kafka's offsets before their rows
 *   zombie_commits       a platform that lost a partition still commits for it
 *   position_apart       ingest commits a stream's position before its rows
 *   no_dedupe            ingest stores records again
 *   two_winners          resolving a review a second time succeeds
 *   spend_after_answer   a use of a token is counted by its record alone, after others were allowed
 *   revocation_not_awaited  a revocation is answered before every reactor has seen it
 *   trace_unrecorded     a decision that shares a pending review is recorded without a mark of that
 *   spelling_left        a suspension leaves reviews pending whose actor has another spelling
 *   timer_trusted        a deadline applies only after its timer has fired
 *   image_believed       recovery uses a snapshot or a mirror's image as the newest state (in
 * tests/sim)
 *
 *   newer_format         no bug: the program reads and writes one more format of a fleet's log
 *   small_store          no bug: a store takes 1/6250 of its most keys and documents
 *   small_tables         no bug: the tables of a shard have 32 places, so that tests can fill them
 *
 * and those of a fleet, which tests/sim/sim_fleet.c lists and finds. */
#ifndef BASE_PLANTED_H
#define BASE_PLANTED_H

#include <stdbool.h>

#ifdef WRIT_PLANTED_BUGS
bool planted(const char *name);
#else
#define planted(name) false
#endif

#endif

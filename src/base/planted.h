/* planted.h - bugs on purpose, so that the tests can show that they bite.
 *
 * `if (planted("no_crc")) …` is the constant false in what is shipped. Built with
 * WRIT_PLANTED_BUGS (the dev preset) it is true when the environment variable WRIT_BUG names it;
 * the variable is read once, at the first call. Any thread. The names in use:
 *
 *   answer_before_sync   the journal publishes its durable mark before it syncs
 *   no_crc               frames are believed without looking at their checksums
 *   sync_error_ignored   a sync that fails counts as done
 *   short_write_ignored  a short pwrite counts as complete
 *   offset_apart         the consumer commits Kafka's offsets before the rows that they stand for
 *   zombie_commits       a platform that lost a partition commits for it all the same
 *   position_apart       ingest commits a stream's position before the rows that it stands for
 *   no_dedupe            ingest stores again what it has stored before
 *   two_winners          who resolves a review that is resolved already is told that it worked
 *   spend_after_answer   a use of a token is counted by its record alone, after others were let through
 *   revocation_not_awaited  a revocation is answered before every reactor has seen it
 *   trace_unrecorded     a decision that shares a pending review is recorded without saying so
 *   spelling_left        a suspension leaves pending what its actor asked for under another spelling
 *   timer_trusted        a deadline holds only once its timer has fired
 *   image_believed       recovery takes a snapshot or a mirror's image for the newest state (in
 * tests/sim) */
#ifndef BASE_PLANTED_H
#define BASE_PLANTED_H

#include <stdbool.h>

#ifdef WRIT_PLANTED_BUGS
bool planted(const char *name);
#else
#define planted(name) false
#endif

#endif

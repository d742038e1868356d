/* last_word.h - the one answer of this process, and the denial that is ready at every moment.
 *
 * Most agents run the tool if their hook prints nothing, dies or is late. So the bytes of a denial are
 * prepared before anything can go wrong, and a signal of any kind (the deadline, SIGTERM, a crash, a
 * failed check) writes them and ends the process with status 2:
 *
 *   1. the reason on standard error    without one, two agents run the tool in spite of status 2
 *   2. the agent's JSON on standard output, with one write()
 *   3. exit status 2
 *
 * The handler uses write() and _exit() alone. A process answers once: the answer that began first is
 * the one that is finished. SIGKILL cannot be handled; the shell guard of the installed command line
 * covers it (settings.h). One thread prepares and answers. */
#ifndef HOOK_LAST_WORD_H
#define HOOK_LAST_WORD_H

#include <stdint.h>

#include "hook/agents.h"

/* First call in main(). */
void last_word_begin(void);

/* From now on the denial has this reason; all but its first bytes are dropped if it is long. With
 * `agent` NULL there is no JSON: status 2 and standard error deny in every agent. */
void last_word_prepare(const struct hook_agent *agent, struct str reason);

/* The process denies when this time is over. */
void last_word_deadline(uint64_t ms);

/* Writes the prepared denial. */
_Noreturn void last_word_deny(void);

/* Writes `json` and exits with 0, or denies if it cannot be written. */
_Noreturn void last_word_allow(struct str json);

#endif

/* ask.h - the conversation with the engine about one tool call, from the request to the answer.
 *
 *   authorize ──allow, compute, deny──────────────────────────────▶ answer
 *      └──human_review──▶ wait ──approved──▶ redeem ──as above──────▶ answer
 *              ▲            ├──denied, expired, cancelled──────────▶ deny
 *              └────────────┴──no answer: wait again, until the deadline
 *
 * The deadline is no step: it is the timer of last_word.h, and each step prepares the denial that is
 * right if the time is over in it. During the wait that denial names the review, and the same call,
 * made again, gets the same review from the engine. */
#ifndef HOOK_ASK_H
#define HOOK_ASK_H

#include "hook/options.h"
#include "hook/request.h"

/* Answers and ends the process. `arena` is that of the call. */
_Noreturn void hook_ask(const struct hook_options *options, const struct hook_call *call,
                        const struct hook_request *request, struct arena *arena);

/* Prepares the denial with this reason, and answers with it. */
_Noreturn void hook_refuse(const struct hook_agent *agent, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif

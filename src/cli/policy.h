/* policy.h - what the files of `writ policy` and `writ authorize` share. */
#ifndef CLI_POLICY_H
#define CLI_POLICY_H

#include "cli/cli.h"

/* "a/payments.yaml" → "payments". */
struct str policy_name_of(struct str path);

int policy_check(struct cli *c, const struct arguments *a);   /* check.c */
int policy_test(struct cli *c, const struct arguments *a);
int policy_explain(struct cli *c, const struct arguments *a); /* authorize.c */

extern const struct flag ask_flags[]; /* what describes a request to decide */

#endif

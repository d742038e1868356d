/* audit.h - what the commands of `writ audit` share: the filters, and how an event is printed. */
#ifndef CLI_AUDIT_H
#define CLI_AUDIT_H

#include "cli/cli.h"

/* Memory for one answer, where a command makes many calls. */
enum { AUDIT_PAGE_FIRST = 1 << 20, AUDIT_PAGE_MOST = 512 << 20 };

/* Rows of a table of flags: the filters. */
#define AUDIT_FILTER_FLAGS                                                                         \
    {"actor", "NAME", "of this agent"}, {"user-id", "NAME", "of this person"},                     \
        {"action", "NAME", "of this action or tool"},                                              \
        {"decision", "WORD", "allow, deny, human_review or compute"},                              \
        {"kind", "WORD", "decision, policy.put, key.created, auth.failed, …"},                     \
        {"rule", "RULE", "decided by this rule, such as review:large-refunds"},                    \
        {"trace-id", "ID", "under this trace id"},                                                 \
        {"from", "SPAN|TIME", "not before: 1h (ago), 2026-11-20, 2026-11-20T09:30:00Z"},           \
    {                                                                                              \
        "to", "SPAN|TIME", "before this time"                                                      \
    }

/* The names of those flags, ended by NULL. */
extern const char *const audit_filters[];

/* The value of --from or --to: a span or a day becomes a time. Absent: not given. Prints its own
 * error: DONE or USAGE. */
int audit_time(struct cli *c, const struct arguments *a, const char *name, struct str *ret);

/* The target of a query with these filters; spans become times. Prints its own error: DONE or
* USAGE. */
int audit_target(struct cli *c, const struct arguments *a, struct target *ret);

/* Whether the event is of a dry run. */
bool audit_is_dry_run(const struct json *event);

/* The event's action and resource: "issue_refund on invoice:in_1". */
struct str audit_what_shown(struct cli *c, const struct json *event);

/* `writ audit trace` (audit_trace.c). */
extern const char audit_trace_text[];
int audit_trace(struct cli *c, const struct arguments *a);

/* `writ audit export` (export.c). */
extern const struct flag export_flags[];
extern const char export_text[];
int audit_export(struct cli *c, const struct arguments *a);

/* `writ audit verify` (audit_verify.c). */
extern const struct flag verify_flags[];
extern const char verify_text[];
int audit_verify(struct cli *c, const struct arguments *a);

/* `writ audit prove` (audit_prove.c). */
extern const struct flag prove_flags[];
extern const char prove_text[];
int audit_prove(struct cli *c, const struct arguments *a);

#endif

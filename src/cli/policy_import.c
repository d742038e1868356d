/* policy_import.c - `writ policy import`: converts another system's policies into a document, on
 * standard output. Its comments list the parts that were not taken; standard error has their
 * number. */
#include "base/limits.h"
#include "cli/policy.h"

const struct flag policy_import_flags[] = {{"from", "SYSTEM", "lelu"}, {NULL, NULL, NULL}};

int policy_run_import(struct cli *c, const struct arguments *a)
{
    struct policy_import done;
    struct policy_problems problems;
    struct str text, from = argument_text(a, "from");
    if (!str_equal(from, STR("lelu")))
        return cli_complain(c, USAGE,
                            "--from is missing or unknown: the one system is --from lelu");
    int code = file_text(c, argument_at(a, 0), LIMIT_POLICY_BODY_BYTES, &text);
    if (code != DONE) return code;
    struct buf out = cli_scratch(c, LIMIT_POLICY_BODY_BYTES);
    enum err e = policy_import_lelu(text, &out, &done, &problems);
    if (e != ERR_OK) {
        for (size_t i = 0; i < problems.count; i++) {
            struct str message = text_shown(&c->arena, str_from(problems.list[i].message));
            fprintf(c->err, "%.*s:%u:%u: %.*s\n",
                    STR_FORMAT(policy_file_shown(c, a->positionals[0])), problems.list[i].line,
                    problems.list[i].column, STR_FORMAT(message));
        }
        return problems.count > 0 ? REFUSED
                                  : cli_complain(c, REFUSED, "%s: the document would be too large",
                                                 a->positionals[0]);
    }
    print_str(c->out, buf_view(&out));
    fprintf(c->err, "%zu rule%s; %zu thing%s not taken: look for NOT TAKEN and CHECK\n", done.rules,
            done.rules == 1 ? "" : "s", done.not_taken, done.not_taken == 1 ? " was" : "s were");
    return DONE;
}

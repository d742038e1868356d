/* Any text as a condition that is looked at for what is probably wrong: every remark is a sentence
 * at a place in the text, and the same text gets the same remarks. */
#include "base/check.h"
#include "cel/lint.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

struct told {
    size_t count;
    uint64_t sum;
};

static void note(void *context, const struct cel_remark *r)
{
    struct told *t = context;
    check(r->line > 0 && r->column > 0);
    check(r->kind == CEL_REMARK_DEMAND ? r->variable < CEL_POLICY_VARIABLES
                                       : r->message[0] != '\0');
    t->count++;
    t->sum = t->sum * 31 + r->line * 1000 + r->column + strlen(r->message);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct told first = {0}, second = {0};
    uint64_t left[] = {20000, 20000};
    if (size > 4096) return 0;
    cel_lint(str_of((const char *)bytes, size), &left[0], note, &first);
    cel_lint(str_of((const char *)bytes, size), &left[1], note, &second);
    check(left[0] == left[1] && first.count == second.count && first.sum == second.sum);
    return 0;
}

/* Any text as a peer's policies: what comes out is a document, and what is refused is told. */
#include "base/check.h"
#include "policy/policy.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static char space[256 << 10];
    struct buf out = buf_over(space, sizeof space);
    struct policy_problems problems;
    struct policy_import done;
    struct policy_document *d = NULL;
    if (size > 64 << 10) return 0;
    enum err e = policy_import_lelu(str_of((const char *)bytes, size), &out, &done, &problems);
    check(e == ERR_OK || e == ERR_FULL || problems.count > 0);
    if (e != ERR_OK) return 0;
    check(policy_load(STR("imported"), buf_view(&out), &d, &problems) == ERR_OK);
    check(policy_document_rules(d) == done.rules);
    policy_lint(d, &problems);
    policy_document_release(d);
    return 0;
}

/* What a witness is sent, and what each of its answers means. The key and its signature are those of a real
 * witness (litewitness of filippo.io/torchwood v0.6.1). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "pipeline/anchor/witness.h"

#define WITNESS_KEY "witness.example/w1+918b6299+BMhAafoiFsbtwdUsqDqhHCZ91UQK+lJgkMpD69DKhqnP"
#define NOTE                                                                                       \
    "writ/prod-1/0/1\n1\niipcm3aIJ95alVLDigRMZpWcaPbS8htSYK9U0vh9uCc=\n\n"                         \
    "\xe2\x80\x94 writ/prod-1/0/1 "                                                                \
    "4jl3bSjO1oIKg0dZmvGo+b75xdJ/s42vfxS9FgVrFoBcT3PtfdZVpnKBwaBvOj+L9N7ii59pZfpUUfPibExcak2sRA4=\n"
#define LINE                                                                                       \
    "\xe2\x80\x94 witness.example/w1 "                                                             \
    "kYtimQAAAABrClp5uhPZo48vRVK27c0N1eh4XlahYfhsFilNF6UDtOshISMtUAuQ/dbrM3eQWXjoKBByM/qm9TrdcsZFy4d0GrGnAA==\n"
#define FORGED                                                                                     \
    "\xe2\x80\x94 witness.example/w1 "                                                             \
    "kYtimQAAAABrClp6uhPZo48vRVK27c0N1eh4XlahYfhsFilNF6UDtOshISMtUAuQ/dbrM3eQWXjoKBByM/qm9TrdcsZFy4d0GrGnAA==\n"
#define STRANGER                                                                                   \
    "\xe2\x80\x94 PeterNeumann "                                                                   \
    "x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n"

static struct note_key key;
static struct witness_asked asked = {.key = &key, .note = {NOTE, sizeof NOTE - 1}};

static struct witness_answer answer_of(uint64_t old_size, uint64_t size, long status,
                                       struct str body)
{
    struct witness_answer answer;
    asked.old_size = old_size;
    asked.size = size;
    witness_read_answer(&asked, status, body, "it answered something", &answer);
    return answer;
}

static void the_request_has_the_size_the_proof_and_the_checkpoint(void **state)
{
    (void)state;
    char bytes[4096];
    struct buf out = buf_over(bytes, sizeof bytes);
    struct merkle_proof proof = {.count = 0};
    witness_put_request(&out, 0, &proof, STR(NOTE));
    assert_true(str_equal(buf_view(&out), STR("old 0\n\n" NOTE)));
    out.size = 0;
    proof.count = 2;
    memset(proof.hashes[1].bytes, 0xff, SHA256_BYTES);
    witness_put_request(&out, 20852014, &proof, STR(NOTE));
    assert_true(
        str_equal(buf_view(&out), STR("old 20852014\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n"
                                      "//////////////////////////////////////////8=\n\n" NOTE)));
}

static void a_signature_of_the_witness_is_taken(void **state)
{
    (void)state;
    static const struct str good[] = {STR(LINE), STR(STRANGER LINE), STR(LINE STRANGER)};
    for (size_t i = 0; i < 3; i++) {
        struct witness_answer a = answer_of(0, 1, 200, good[i]);
        assert_int_equal(a.verdict, WITNESS_SIGNED);
        assert_true(str_equal(a.line, STR(LINE)));
    }
}

static void any_other_signature_is_named(void **state)
{
    (void)state;
    static const struct {
        struct str body;
        const char *why;
    } cases[] = {
        {STR(""), "its answer has no signature of witness.example/w1"},
        {STR("ok\n"), "its answer has no signature of witness.example/w1"},
        {STR(STRANGER), "its answer has no signature of witness.example/w1"},
        {STR(FORGED), "its answer has a forged signature of witness.example/w1"},
        {STR(LINE FORGED), "its answer has a forged signature of witness.example/w1"},
        {{LINE, sizeof LINE - 2}, "its answer has no signature of witness.example/w1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct witness_answer a = answer_of(0, 1, 200, cases[i].body);
        assert_int_equal(a.verdict, WITNESS_FAILED);
        assert_string_equal(a.why, cases[i].why);
    }
}

static void another_size_is_asked_for_again_if_it_can_be(void **state)
{
    (void)state;
    static const struct {
        struct str body;
        enum witness_verdict verdict;
    } cases[] = {
        {STR("7\n"), WITNESS_HAS_ANOTHER},  {STR("0\n"), WITNESS_HAS_ANOTHER},
        {STR("10\n"), WITNESS_HAS_ANOTHER}, {STR("5\n"), WITNESS_REFUSED}, /* another root */
        {STR("11\n"), WITNESS_REFUSED},     {STR(""), WITNESS_FAILED},
        {STR("x\n"), WITNESS_FAILED},       {STR("-1\n"), WITNESS_FAILED},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(answer_of(5, 10, 409, cases[i].body).verdict, cases[i].verdict);
    assert_int_equal(answer_of(5, 10, 409, STR("7\n")).size, 7);
}

static void a_refused_tree_is_no_failed_witness(void **state)
{
    (void)state;
    static const long refused[] = {400, 403, 404, 422}, failed[] = {0, 204, 301, 429, 500, 503};
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(answer_of(5, 10, refused[i], STR("no\n")).verdict, WITNESS_REFUSED);
    for (size_t i = 0; i < 6; i++) {
        struct witness_answer a = answer_of(5, 10, failed[i], STR(LINE));
        assert_int_equal(a.verdict, WITNESS_FAILED);
        assert_string_equal(a.why, "it answered something");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_request_has_the_size_the_proof_and_the_checkpoint),
        cmocka_unit_test(a_signature_of_the_witness_is_taken),
        cmocka_unit_test(any_other_signature_is_named),
        cmocka_unit_test(another_size_is_asked_for_again_if_it_can_be),
        cmocka_unit_test(a_refused_tree_is_no_failed_witness),
    };
    if (note_key_read(STR(WITNESS_KEY), &key, NULL) != ERR_OK) return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_note.c - signed notes: the vectors of Go's sumdb/note; and texts of checkpoints. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "crypto/base64.h"
#include "evidence/checkpoint.h"
#include "evidence/note.h"

#define TEXT                                                                                       \
    "If you think cryptography is the answer to your problem,\nthen you don't know what your "     \
    "problem is.\n"
#define PETER_DIGITS                                                                               \
    "x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM="
#define PETER_LINE "\xe2\x80\x94 PeterNeumann " PETER_DIGITS "\n"
#define ENOCH_LINE                                                                                 \
    "\xe2\x80\x94 EnochRoot "                                                                      \
    "rwz+eBzmZa0SO3NbfRGzPCpDckykFXSdeX+MNtCOXm2/5n2tiOHp+vAF1aGrQ5ovTG01oOTGwnWLox33WWd1RvMc+QQ=\n"
#define PETER_KEY "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
#define ENOCH_KEY "EnochRoot+af0cfe78+ATtqJ7zOtqQtYqOo0CpvDXNlMhV3HeJDpjrASKGLWdop"
#define PETER_SECRET "AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz" /* type 1, 32 bytes */
/* What litewitness of filippo.io/torchwood v0.6.1 has signed, with the secret key of 32 bytes "W". */
#define WITNESS_KEY "witness.example/w1+918b6299+BMhAafoiFsbtwdUsqDqhHCZ91UQK+lJgkMpD69DKhqnP"
#define WITNESSED_TEXT "writ/prod-1/0/1\n1\niipcm3aIJ95alVLDigRMZpWcaPbS8htSYK9U0vh9uCc=\n"
#define WITNESS_DIGITS                                                                             \
    "kYtimQAAAABrClp5uhPZo48vRVK27c0N1eh4XlahYfhsFilNF6UDtOshISMtUAuQ/dbrM3eQWXjoKBByM/qm9TrdcsZFy4d0GrGnAA=="
#define WITNESS_LINE "\xe2\x80\x94 witness.example/w1 " WITNESS_DIGITS "\n"

static struct note_key key_of(const char *text)
{
    struct note_key k;
    struct fault f;
    assert_int_equal(note_key_read(str_from(text), &k, &f), ERR_OK);
    return k;
}

static struct note note_of(struct str bytes)
{
    struct note n;
    struct fault f;
    if (note_read(bytes, &n, &f) != ERR_OK) fail_msg("refused: %s", f.text);
    return n;
}

static void a_signature_is_that_of_go(void **state)
{
    (void)state;
    uint8_t typed[33];
    size_t size;
    char bytes[1024];
    struct buf out = buf_over(bytes, sizeof bytes);
    assert_true(base64_read(STR(PETER_SECRET), typed, &size) && size == 33);
    struct ed25519 *key = ed25519_from_secret(typed + 1);
    assert_true(note_sign(&out, STR(TEXT), STR("PeterNeumann"), key));
    assert_true(str_equal(buf_view(&out), STR(TEXT "\n" PETER_LINE)));
    ed25519_destroy(key);
}

static void a_note_of_two_signatures_is_read(void **state)
{
    (void)state;
    struct note n = note_of(STR(TEXT "\n" PETER_LINE ENOCH_LINE));
    struct note_key peter = key_of(PETER_KEY), enoch = key_of(ENOCH_KEY);
    assert_true(str_equal(n.text, STR(TEXT)));
    assert_int_equal(n.count, 2);
    assert_int_equal(n.signatures[0].key_id, 0xc74f20a3);
    assert_int_equal(note_verify(&n, &peter), NOTE_SIGNED);
    assert_int_equal(note_verify(&n, &enoch), NOTE_SIGNED);
}

static void a_key_that_signed_nothing_is_unsigned(void **state)
{
    (void)state;
    struct note n = note_of(STR(TEXT "\n" PETER_LINE));
    struct note_key enoch = key_of(ENOCH_KEY), peter = key_of(PETER_KEY);
    assert_int_equal(note_verify(&n, &enoch), NOTE_UNSIGNED);
    peter.name = STR("CarmenSandiego"); /* the same id, under another name */
    assert_int_equal(note_verify(&n, &peter), NOTE_UNSIGNED);
}

static void a_changed_byte_is_forged(void **state)
{
    (void)state;
    char bytes[] = TEXT "\n" PETER_LINE;
    struct note_key peter = key_of(PETER_KEY);
    for (size_t i = 0; i < sizeof TEXT - 2; i++) {
        if (bytes[i] == '\n') continue;
        bytes[i] ^= 1;
        struct note n = note_of(str_of(bytes, sizeof bytes - 1));
        assert_int_equal(note_verify(&n, &peter), NOTE_FORGED);
        bytes[i] ^= 1;
    }
    /* two signatures of the same key, of which one is wrong */
    struct note n = note_of(STR(TEXT "\n" PETER_LINE "\xe2\x80\x94 PeterNeumann x08gowAA\n"));
    assert_int_equal(note_verify(&n, &peter), NOTE_FORGED);
    n = note_of(STR(TEXT "\n\xe2\x80\x94 PeterNeumann x08gowAA\n" PETER_LINE));
    assert_int_equal(note_verify(&n, &peter), NOTE_FORGED);
}

static void what_is_no_note_is_refused(void **state)
{
    (void)state;
    static const struct str wrong[] = {
        STR(""),
        STR("\n"),
        STR("\n\n"),
        STR("\n\n" PETER_LINE),
        STR(TEXT),
        STR(TEXT "\n"),
        STR(TEXT PETER_LINE),
        STR(TEXT "\n\xe2\x80\x94 PeterNeumann " PETER_DIGITS), /* no newline at the end */
        STR("\x01" TEXT "\n" PETER_LINE),
        STR("\xff" TEXT "\n" PETER_LINE),
        STR("a\r\n" TEXT "\n" PETER_LINE),
        STR(TEXT "\n\xe2\x80\x94 Bad Name " PETER_DIGITS "\n"),
        STR(TEXT "\n\xe2\x80\x94 Bad+Name " PETER_DIGITS "\n"),
        STR(TEXT "\n\xe2\x80\x94 Bad\xc2\xa0Name " PETER_DIGITS "\n"),
        STR(TEXT "\n\xe2\x80\x94 Bad\xe2\x80\x8aName " PETER_DIGITS "\n"),
        STR(TEXT "\n\xe2\x80\x94  " PETER_DIGITS "\n"),
        STR(TEXT "\n- PeterNeumann " PETER_DIGITS "\n"),
        STR(TEXT "\n\xe2\x80\x94 PeterNeumann x08go/ZJ*uBS\n"),
        STR(TEXT "\n\xe2\x80\x94 PeterNeumann x08goA\n"),   /* no padding */
        STR(TEXT "\n\xe2\x80\x94 PeterNeumann x08gow==\n"), /* a key id alone */
        STR(TEXT "\n" PETER_LINE "Unexpected line.\n"),
        STR(TEXT "\n" PETER_LINE "\n"),
    };
    struct note n;
    struct fault f;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (note_read(wrong[i], &n, &f) != ERR_BAD_VALUE) fail_msg("note %zu was read", i);
}

static void the_limits_of_a_note_are_kept(void **state)
{
    (void)state;
    struct buf out;
    struct note n;
    struct fault f;
    buf_init(&out, 4096, 1 << 20);
    buf_put_literal(&out, TEXT "\n");
    for (int i = 0; i < NOTE_SIGNATURES_MAX; i++) buf_put_literal(&out, PETER_LINE);
    assert_int_equal(note_of(buf_view(&out)).count, NOTE_SIGNATURES_MAX);
    buf_put_literal(&out, PETER_LINE);
    assert_int_equal(note_read(buf_view(&out), &n, &f), ERR_FULL);
    while (out.size <= NOTE_BYTES_MAX) buf_put_literal(&out, PETER_LINE);
    assert_int_equal(note_read(buf_view(&out), &n, &f), ERR_FULL);
    buf_fini(&out);
}

static void the_text_of_a_note_may_have_empty_lines(void **state)
{
    (void)state;
    struct note n = note_of(STR("a\n\nb\n\n" PETER_LINE));
    assert_true(str_equal(n.text, STR("a\n\nb\n")));
}

static void a_key_is_written_as_it_was_read(void **state)
{
    (void)state;
    static const char *const texts[] = {PETER_KEY, ENOCH_KEY, WITNESS_KEY};
    for (size_t i = 0; i < 3; i++) {
        char bytes[NOTE_KEY_TEXT_MAX];
        struct buf out = buf_over(bytes, sizeof bytes);
        struct note_key k = key_of(texts[i]);
        note_key_put(&out, &k);
        assert_true(str_equal(buf_view(&out), str_from(texts[i])));
    }
}

static void a_key_that_is_changed_anywhere_is_refused(void **state)
{
    (void)state;
    char text[] = PETER_KEY;
    size_t size = sizeof text - 1;
    struct note_key k;
    struct fault f;
    for (size_t i = 0; i < size; i++) {
        text[i]++;
        if (note_key_read(str_of(text, size), &k, &f) == ERR_OK) fail_msg("%s was read", text);
        text[i]--;
    }
    for (size_t from = 0; from <= size; from++)
        for (size_t to = from; to <= size; to++)
            if (from != 0 || to != size)
                assert_int_equal(note_key_read(str_of(text + from, to - from), &k, &f),
                                 ERR_BAD_VALUE);
    /* a longer key, and another type, each with the id that it would have */
    assert_int_equal(
        note_key_read(
            STR("PeterNeumann+cc469956+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TWBADKEY=="), &k,
            &f),
        ERR_BAD_VALUE);
    assert_int_equal(
        note_key_read(STR("PeterNeumann+173116ae+ZRpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"), &k,
                      &f),
        ERR_BAD_VALUE);
}

/* ---- witnesses ---- */

static void a_signature_is_that_of_a_witness(void **state)
{
    (void)state;
    struct note n = note_of(STR(WITNESSED_TEXT "\n" WITNESS_LINE));
    struct note_key k = key_of(WITNESS_KEY);
    uint64_t time_s;
    assert_int_equal(k.type, NOTE_WITNESS);
    assert_int_equal(note_verify_witness(&n, &k, &time_s), NOTE_SIGNED);
    assert_int_equal(time_s, 1795840633); /* 2026-11-28T04:37:13Z */
    n = note_of(STR("writ/prod-1/0/1\n2\niipcm3aIJ95alVLDigRMZpWcaPbS8htSYK9U0vh9uCc=\n"
                    "\n" WITNESS_LINE));
    assert_int_equal(note_verify(&n, &k), NOTE_FORGED);
    n = note_of(STR(WITNESSED_TEXT "\n" PETER_LINE));
    assert_int_equal(note_verify(&n, &k), NOTE_UNSIGNED);
}

static void each_bit_of_a_witness_signature_counts(void **state)
{
    (void)state;
    uint8_t bytes[80], changed[80];
    size_t size;
    struct note_key k = key_of(WITNESS_KEY);
    assert_true(base64_read(STR(WITNESS_DIGITS), bytes, &size) && size == 76);
    for (size_t i = 4; i < size; i++) {
        char text[512];
        struct buf out = buf_over(text, sizeof text);
        memcpy(changed, bytes, size);
        changed[i] ^= 1;
        buf_put_literal(&out, WITNESSED_TEXT "\n\xe2\x80\x94 witness.example/w1 ");
        base64_put(&out, str_of((const char *)changed, size), 0);
        buf_put_byte(&out, '\n');
        struct note n = note_of(buf_view(&out));
        assert_int_equal(note_verify(&n, &k), NOTE_FORGED);
    }
}

/* ---- checkpoints ---- */

#define ROOT "CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I="
#define CHECKPOINT "example.com/behind-the-sofa\n20852163\n" ROOT "\n"

static void a_checkpoint_is_written_as_it_was_read(void **state)
{
    (void)state;
    static const struct str texts[] = {STR(CHECKPOINT), STR("o\n0\n" ROOT "\n"),
                                       STR("o\n18446744073709551615\n" ROOT "\n"),
                                       STR(CHECKPOINT "time 1\nnext 2\n")};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct checkpoint c;
        struct fault f;
        char bytes[512];
        struct buf out = buf_over(bytes, sizeof bytes);
        assert_int_equal(checkpoint_read(texts[i], &c, &f), ERR_OK);
        checkpoint_put(&out, &c);
        assert_true(str_equal(buf_view(&out), texts[i]));
    }
}

static void a_checkpoint_has_its_three_parts(void **state)
{
    (void)state;
    struct checkpoint c;
    struct fault f;
    struct str line;
    assert_int_equal(checkpoint_read(STR(CHECKPOINT "time 1\nnext 2\n"), &c, &f), ERR_OK);
    assert_true(str_equal(c.origin, STR("example.com/behind-the-sofa")));
    assert_int_equal(c.size, 20852163);
    assert_int_equal(c.root.bytes[0], 0x0a);
    assert_true(checkpoint_next_extension(&c.extensions, &line) && str_equal(line, STR("time 1")));
    assert_true(checkpoint_next_extension(&c.extensions, &line) && str_equal(line, STR("next 2")));
    assert_false(checkpoint_next_extension(&c.extensions, &line));
}

static void what_is_no_checkpoint_is_refused(void **state)
{
    (void)state;
    static const struct str wrong[] = {
        STR(""),
        STR("o"),
        STR("o\n"),
        STR("o\n1\n"),
        STR("o\n1\n" ROOT),
        STR("\n1\n" ROOT "\n"),
        STR("o\n\n" ROOT "\n"),
        STR("o\n01\n" ROOT "\n"),
        STR("o\n00\n" ROOT "\n"),
        STR("o\n+1\n" ROOT "\n"),
        STR("o\n 1\n" ROOT "\n"),
        STR("o\n1 \n" ROOT "\n"),
        STR("o\n-1\n" ROOT "\n"),
        STR("o\n18446744073709551616\n" ROOT "\n"),
        STR("o\n1\n\n"),
        STR("o\n1\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2==\n"),
        STR("o\n1\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2J=\n"), /* bits beyond the root */
        STR("o\n1\nCsUYapGGPo4dkMgIAUqom_Xajj7h2fB2MPA3j2jxq2I=\n"), /* base64url */
        STR("o\n1\n" ROOT ROOT "\n"),
        STR(CHECKPOINT "\n"),
        STR(CHECKPOINT "time 1\n\n"),
        STR(CHECKPOINT "time 1"),
    };
    struct checkpoint c;
    struct fault f;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (checkpoint_read(wrong[i], &c, &f) != ERR_BAD_VALUE)
            fail_msg("checkpoint %zu was read", i);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_signature_is_that_of_go),
        cmocka_unit_test(a_note_of_two_signatures_is_read),
        cmocka_unit_test(a_key_that_signed_nothing_is_unsigned),
        cmocka_unit_test(a_changed_byte_is_forged),
        cmocka_unit_test(what_is_no_note_is_refused),
        cmocka_unit_test(the_limits_of_a_note_are_kept),
        cmocka_unit_test(the_text_of_a_note_may_have_empty_lines),
        cmocka_unit_test(a_key_is_written_as_it_was_read),
        cmocka_unit_test(a_key_that_is_changed_anywhere_is_refused),
        cmocka_unit_test(a_signature_is_that_of_a_witness),
        cmocka_unit_test(each_bit_of_a_witness_signature_counts),
        cmocka_unit_test(a_checkpoint_is_written_as_it_was_read),
        cmocka_unit_test(a_checkpoint_has_its_three_parts),
        cmocka_unit_test(what_is_no_checkpoint_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

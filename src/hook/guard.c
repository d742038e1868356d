#include "hook/guard.h"

/* As one word of a shell, whatever is in it. */
static void put_word(struct buf *out, struct str word)
{
    buf_put_byte(out, '\'');
    for (size_t i = 0; i < word.size; i++) {
        if (word.bytes[i] == '\'')
            buf_put_literal(out, "'\\''");
        else
            buf_put_byte(out, word.bytes[i]);
    }
    buf_put_byte(out, '\'');
}

static void put_option(struct buf *out, const char *name, struct str value)
{
    if (str_is_absent(value)) return;
    buf_put_literal(out, " --");
    buf_put(out, str_from(name));
    buf_put_byte(out, ' ');
    put_word(out, value);
}

uint64_t guard_seconds(const struct hook_options *options)
{
    return (options->deadline_ms + 999) / 1000;
}

void guard_put(struct buf *out, struct str program, const struct hook_options *options)
{
    buf_put_literal(out, "o=$(timeout -k 1 ");
    buf_put_u64(out, guard_seconds(options) + HOOK_GUARD_SECONDS);
    buf_put_byte(out, ' ');
    put_word(out, program);
    buf_put_byte(out, ' ');
    buf_put(out, str_from(options->agent->name));
    put_option(out, "engine", options->engine);
    put_option(out, "key-file", options->key_file);
    put_option(out, "actor", options->actor);
    put_option(out, "tls-ca-file", options->ca_file);
    put_option(out, "tls-cert-file", options->cert_file);
    put_option(out, "tls-key-file", options->cert_key_file);
    if (options->deadline_ms != HOOK_DEADLINE_MS) {
        buf_put_literal(out, " --deadline ");
        buf_put_u64(out, options->deadline_ms);
        buf_put_literal(out, "ms");
    }
    if (options->grant) buf_put_literal(out, " --grant");
    if (options->grant_compute) buf_put_literal(out, " --grant-compute");
    buf_put_literal(
        out, "); r=$?; case $r$o in 0{*}) printf %s \"$o\"; exit 0;; 2{*}) printf %s \"$o\"; "
             "exit 2;; esac; echo \"writ: the hook ended with status $r and without an answer: "
             "the call is denied\" >&2; exit 2");
}

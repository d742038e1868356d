#include "pipeline/anchor/witness.h"

#include <stdarg.h>
#include <stdio.h>

#include "crypto/base64.h"

enum {
    HTTP_OK = 200,
    HTTP_BAD_REQUEST = 400,
    HTTP_FORBIDDEN = 403,
    HTTP_NOT_FOUND = 404,
    HTTP_CONFLICT = 409,
    HTTP_UNPROCESSABLE = 422,
    ANSWER_LINES_MAX = 64,
    ONE_SIGNED_MAX = NOTE_COSIGNED_MAX + WITNESS_ANSWER_MAX,
};

void witness_put_request(struct buf *out, uint64_t old_size, const struct merkle_proof *proof,
                         struct str note)
{
    buf_printf(out, "old %llu\n", (unsigned long long)old_size);
    for (size_t i = 0; i < proof->count; i++) {
        base64_put(out, str_of((const char *)proof->hashes[i].bytes, SHA256_BYTES), 0);
        buf_put_byte(out, '\n');
    }
    buf_put_byte(out, '\n');
    buf_put(out, note);
}

static void end(struct witness_answer *ret, enum witness_verdict verdict, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void end(struct witness_answer *ret, enum witness_verdict verdict, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(ret->why, sizeof ret->why, format, arguments);
    va_end(arguments);
    ret->verdict = verdict;
}

/* The checkpoint with this signature alone, because a note has a limit of signatures. */
static enum note_verdict verify(const struct witness_asked *asked, struct str line)
{
    char bytes[ONE_SIGNED_MAX];
    struct buf one = buf_over(bytes, sizeof bytes);
    struct note sent, n;
    if (note_read(asked->note, &sent, NULL) != ERR_OK) return NOTE_UNSIGNED;
    buf_put(&one, sent.text);
    buf_put_byte(&one, '\n');
    buf_put(&one, line);
    if (one.overflow || note_read(buf_view(&one), &n, NULL) != ERR_OK) return NOTE_UNSIGNED;
    return note_verify(&n, asked->key);
}

/* Signatures of keys that are not known are left out. */
static void read_signatures(const struct witness_asked *asked, struct str body,
                            struct witness_answer *ret)
{
    struct str name = asked->key->name;
    bool is_forged = false;
    for (size_t lines = 0; body.size > 0 && lines < ANSWER_LINES_MAX; lines++) {
        size_t size = str_find(body, '\n');
        if (size == body.size) break;
        struct str line = str_of(body.bytes, size + 1);
        body = str_skip(body, size + 1);
        enum note_verdict verdict = verify(asked, line);
        is_forged = is_forged || verdict == NOTE_FORGED;
        if (verdict == NOTE_SIGNED) ret->line = line;
    }
    if (is_forged)
        end(ret, WITNESS_FAILED, "its answer has a forged signature of %.*s", STR_FORMAT(name));
    else if (str_is_absent(ret->line))
        end(ret, WITNESS_FAILED, "its answer has no signature of %.*s", STR_FORMAT(name));
    else
        ret->verdict = WITNESS_SIGNED;
}

static void read_size(const struct witness_asked *asked, struct str body,
                      struct witness_answer *ret)
{
    unsigned long long old = asked->old_size, size = asked->size;
    if (body.size > 0 && body.bytes[body.size - 1] == '\n') body.size--;
    if (body.size == 0 || !str_to_u64(body, &ret->size))
        end(ret, WITNESS_FAILED, "its answer HTTP 409 has no size");
    else if (ret->size == old)
        end(ret, WITNESS_REFUSED,
            "it has signed another root for these %llu records: a second history", old);
    else if (ret->size > size)
        end(ret, WITNESS_REFUSED,
            "it has signed %llu records of this tree, and the store has a checkpoint of %llu: an older "
            "database, or a second history",
            (unsigned long long)ret->size, size);
    else
        ret->verdict = WITNESS_HAS_ANOTHER;
}

void witness_read_answer(const struct witness_asked *asked, long status, struct str body,
                         const char *error, struct witness_answer *ret)
{
    *ret = (struct witness_answer){0};
    switch (status) {
    case HTTP_OK: read_signatures(asked, body, ret); break;
    case HTTP_CONFLICT: read_size(asked, body, ret); break;
    case HTTP_FORBIDDEN:
    case HTTP_NOT_FOUND:
        end(ret, WITNESS_REFUSED,
            "HTTP %ld: it does not know this origin, or not the engine's key for it", status);
        break;
    case HTTP_UNPROCESSABLE:
        end(ret, WITNESS_REFUSED,
            "HTTP 422: the first %llu records are not those that it has signed: records were "
            "changed, or a second history",
            (unsigned long long)asked->old_size);
        break;
    case HTTP_BAD_REQUEST: end(ret, WITNESS_REFUSED, "HTTP 400: it cannot read the request"); break;
    default: end(ret, WITNESS_FAILED, "%s", error);
    }
}

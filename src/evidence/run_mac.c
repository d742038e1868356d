#include "evidence/run_mac.h"

#include "base/check.h"

enum { STREAM_BYTES_MAX = 1024, NUMBER_BYTES = 8 };

struct sha256 run_key(const struct sha256 *of_all, struct str node, struct str journal)
{
    char bytes[STREAM_BYTES_MAX];
    struct buf stream = buf_over(bytes, sizeof bytes);
    buf_put(&stream, node);
    buf_put_byte(&stream, '\0');
    buf_put(&stream, journal);
    check(!stream.overflow);
    return hmac_once(str_of((const char *)of_all->bytes, sizeof of_all->bytes), buf_view(&stream));
}

struct hmac_key run_key_prepare(struct hasher *h, const struct sha256 *key)
{
    return hmac_key_make(h, str_of((const char *)key->bytes, sizeof key->bytes));
}

static struct str big_endian(uint64_t number, char to[NUMBER_BYTES])
{
    for (size_t i = 0; i < NUMBER_BYTES; i++) to[i] = (char)(number >> (56 - 8 * i));
    return str_of(to, NUMBER_BYTES);
}

struct sha256 run_mac(struct hasher *h, const struct hmac_key *key, const struct run *r)
{
    char first[NUMBER_BYTES], count[NUMBER_BYTES], from[NUMBER_BYTES];
    check(r->epoch.size == RUN_EPOCH_BYTES);
    const struct str parts[] = {
        r->epoch,
        big_endian(r->first_seq, first),
        big_endian(r->count, count),
        str_of((const char *)r->leaves, r->count * sizeof *r->leaves),
        big_endian(r->checkpoint.from_seq, from),
        r->checkpoint.note,
        STR("\n"),
        r->checkpoint.frontier,
    };
    return hasher_hmac_parts(h, key, parts, sizeof parts / sizeof *parts);
}

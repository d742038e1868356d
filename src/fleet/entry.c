#include "fleet/entry.h"

#include "base/check.h"
#include "base/little.h"
#include "base/planted.h"

enum {
    AT_FORMAT = 8,
    AT_KIND = 10,
    AT_FLAGS = 11,
    AT_FINGERPRINT = 12,
    AT_FLEET = 16,
    AT_TERM = 32,
    AT_N = 40,
    AT_PREVIOUS = 48,
    AT_INCARNATION = 80,
    AT_TIME = 96,
    AT_SEQ = 104,
    AT_NODE_BYTES = 112,
    AT_BODY_BYTES = 114,
    HEADER_BYTES = 118,
    POINT_BYTES = 16 + SHA256_BYTES,
    RECORD_HEAD_BYTES = 8,
};
enum { FLAG_CLOSED = 1, FLAG_WORKS = 2, FLAG_REACHES = 4 };

static const char magic[8] = "writFLT1";

uint16_t entry_format_newest(void) { return ENTRY_FORMAT + (planted("newer_format") ? 1 : 0); }

struct entry_key entry_key_derive(struct str pepper, uint32_t fingerprint, struct str name,
                                  struct fleet_id fleet)
{
    char room[HKDF_INFO_MAX];
    struct buf info = buf_over(room, sizeof room);
    check(name.size <= 128);
    buf_put(&info, STR("writ fleet entry\0"));
    if (!planted("foreign_fleet_taken"))
        buf_put(&info, str_of((const char *)fleet.bytes, sizeof fleet.bytes));
    buf_put(&info, name);
    return (struct entry_key){.fleet = fleet,
                              .fingerprint = fingerprint,
                              .mac = hkdf_once(pepper, STR(""), buf_view(&info))};
}

static struct str view_of(const struct sha256 *digest)
{
    return str_of((const char *)digest->bytes, sizeof digest->bytes);
}

bool entry_point_equal(const struct entry_point *a, const struct entry_point *b)
{
    return a->term == b->term && a->n == b->n &&
           str_equal(view_of(&a->digest), view_of(&b->digest));
}

/* ---- writing ---- */

static void put_number(struct buf *out, uint64_t value, unsigned bytes)
{
    char room[8];
    little_put(room, value, bytes);
    buf_put(out, str_of(room, bytes));
}

void entry_put_record(struct buf *records, struct str public_bytes, struct str private_bytes)
{
    put_number(records, public_bytes.size, 4);
    put_number(records, private_bytes.size, 4);
    buf_put(records, public_bytes);
    buf_put(records, private_bytes);
}

static void put_body(const struct entry *e, struct buf *out)
{
    switch (e->kind) {
    case ENTRY_TERM: put_number(out, e->nonce, 8); break;
    case ENTRY_RECORDS:
        if (e->n == 1) {
            put_number(out, e->before.term, 8);
            put_number(out, e->before.n, 8);
            buf_put(out, view_of(&e->before.digest));
        }
        buf_put(out, e->records);
        return;
    case ENTRY_HEARTBEAT:
        put_number(out, e->heartbeat.number, 8);
        put_number(out, e->nonce, 8);
        put_number(out, e->heartbeat.applied, 8);
        put_number(out, e->heartbeat.kept, 8);
        put_number(out, e->heartbeat.lease_ms, 4);
        put_number(out, e->heartbeat.known_format, 2);
        buf_put(out, str_of((const char *)e->heartbeat.successor.bytes,
                            sizeof e->heartbeat.successor.bytes));
        put_number(out, e->heartbeat.version.size, 2);
        buf_put(out, e->heartbeat.version);
        break;
    }
    buf_put(out, e->address);
}

static char flags_of(const struct entry *e)
{
    return (char)((e->heartbeat.closed ? FLAG_CLOSED : 0) | (e->heartbeat.works ? FLAG_WORKS : 0) |
                  (e->heartbeat.reaches ? FLAG_REACHES : 0));
}

enum err entry_put(struct entry *e, const struct entry_key *key, struct hasher *h, struct buf *out)
{
    size_t begin = out->size;
    char head[HEADER_BYTES];
    if (e->node.size > ENTRY_NAME_MAX || e->address.size > ENTRY_NAME_MAX ||
        e->heartbeat.version.size > ENTRY_NAME_MAX)
        return ERR_FULL;
    memcpy(head, magic, sizeof magic);
    check(e->format >= ENTRY_FORMAT_FIRST && e->format <= entry_format_newest());
    little_put16(head + AT_FORMAT, e->format);
    head[AT_KIND] = (char)e->kind;
    head[AT_FLAGS] = flags_of(e);
    little_put32(head + AT_FINGERPRINT, key->fingerprint);
    memcpy(head + AT_FLEET, key->fleet.bytes, sizeof key->fleet.bytes);
    little_put64(head + AT_TERM, e->term);
    little_put64(head + AT_N, e->n);
    memcpy(head + AT_PREVIOUS, e->previous.bytes, SHA256_BYTES);
    memcpy(head + AT_INCARNATION, e->incarnation.bytes, sizeof e->incarnation.bytes);
    little_put64(head + AT_TIME, e->time_ms);
    little_put64(head + AT_SEQ, e->seq);
    little_put16(head + AT_NODE_BYTES, (uint16_t)e->node.size);
    buf_put(out, str_of(head, sizeof head));
    buf_put(out, e->node);
    size_t body = out->size;
    put_body(e, out);
    if (out->overflow || out->size - body > ENTRY_BODY_MAX) {
        out->size = begin;
        out->overflow = false;
        return ERR_FULL;
    }
    little_put32(out->bytes + begin + AT_BODY_BYTES, (uint32_t)(out->size - body));
    struct sha256 mac = hasher_hmac(h, view_of(&key->mac), str_skip(buf_view(out), begin));
    buf_put(out, view_of(&mac));
    if (out->overflow) {
        out->size = begin;
        out->overflow = false;
        return ERR_FULL;
    }
    e->digest = hasher_sha256(h, str_skip(buf_view(out), begin));
    return ERR_OK;
}

/* ---- reading ---- */

static bool take(struct str *rest, size_t bytes, struct str *ret)
{
    if (rest->size < bytes) return false;
    *ret = str_of(rest->bytes, bytes);
    *rest = str_skip(*rest, bytes);
    return true;
}

static bool take_number(struct str *rest, unsigned bytes, uint64_t *ret)
{
    struct str part;
    if (!take(rest, bytes, &part)) return false;
    *ret = little_get(part.bytes, bytes);
    return true;
}

bool entry_next_record(struct str *records, struct str *ret_public, struct str *ret_private)
{
    struct str rest = *records;
    uint64_t public_bytes, private_bytes;
    if (!take_number(&rest, 4, &public_bytes) || !take_number(&rest, 4, &private_bytes) ||
        !take(&rest, (size_t)public_bytes, ret_public) ||
        !take(&rest, (size_t)private_bytes, ret_private))
        return false;
    *records = rest;
    return true;
}

static bool are_whole(struct str records)
{
    struct str public_bytes, private_bytes;
    while (entry_next_record(&records, &public_bytes, &private_bytes)) continue;
    return records.size == 0;
}

static bool read_body(struct str body, struct entry *e)
{
    struct str part;
    uint64_t lease_ms, known, size;
    switch (e->kind) {
    case ENTRY_TERM:
        if (e->n != 0 || !take_number(&body, 8, &e->nonce)) return false;
        break;
    case ENTRY_RECORDS:
        if (e->n == 0) return false;
        if (e->n == 1) {
            if (!take_number(&body, 8, &e->before.term) || !take_number(&body, 8, &e->before.n) ||
                !take(&body, SHA256_BYTES, &part))
                return false;
            memcpy(e->before.digest.bytes, part.bytes, SHA256_BYTES);
        }
        e->records = body;
        return are_whole(body);
    case ENTRY_HEARTBEAT:
        if (!take_number(&body, 8, &e->heartbeat.number) || !take_number(&body, 8, &e->nonce) ||
            !take_number(&body, 8, &e->heartbeat.applied) ||
            !take_number(&body, 8, &e->heartbeat.kept) || !take_number(&body, 4, &lease_ms) ||
            !take_number(&body, 2, &known) ||
            !take(&body, sizeof e->heartbeat.successor.bytes, &part) ||
            !take_number(&body, 2, &size) || size > ENTRY_NAME_MAX ||
            !take(&body, (size_t)size, &e->heartbeat.version))
            return false;
        if (e->heartbeat.number == 0 || lease_ms > ENTRY_LEASE_MAX_MS) return false;
        e->heartbeat.lease_ms = (uint32_t)lease_ms;
        e->heartbeat.known_format = (uint16_t)known;
        memcpy(e->heartbeat.successor.bytes, part.bytes, sizeof e->heartbeat.successor.bytes);
        break;
    }
    e->address = body;
    return body.size <= ENTRY_NAME_MAX;
}

bool entry_names_fleet(struct str bytes, struct fleet_id *ret)
{
    if (bytes.size < HEADER_BYTES || memcmp(bytes.bytes, magic, sizeof magic) != 0) return false;
    memcpy(ret->bytes, bytes.bytes + AT_FLEET, sizeof ret->bytes);
    return true;
}

enum entry_fault entry_read(struct str bytes, const struct entry_key *key, struct hasher *h,
                            struct entry *ret)
{
    const char *head = bytes.bytes;
    *ret = (struct entry){0};
    if (bytes.size < AT_KIND || memcmp(head, magic, sizeof magic) != 0) return ENTRY_MALFORMED;
    const uint16_t format = little_get16(head + AT_FORMAT);
    if (format < ENTRY_FORMAT_FIRST) return ENTRY_MALFORMED;
    if (format > entry_format_newest()) return ENTRY_NEWER;
    if (bytes.size < HEADER_BYTES + SHA256_BYTES) return ENTRY_MALFORMED;
    if (memcmp(head + AT_FLEET, key->fleet.bytes, sizeof key->fleet.bytes) != 0 &&
        !planted("foreign_fleet_taken"))
        return ENTRY_OTHER_FLEET;
    if (little_get32(head + AT_FINGERPRINT) != key->fingerprint) return ENTRY_OTHER_PEPPER;
    struct str signed_bytes = str_of(bytes.bytes, bytes.size - SHA256_BYTES);
    struct sha256 mac = hasher_hmac(h, view_of(&key->mac), signed_bytes);
    if (!bytes_equal_secret(mac.bytes, bytes.bytes + signed_bytes.size, SHA256_BYTES))
        return ENTRY_FORGED;

    uint8_t flags = (uint8_t)head[AT_FLAGS];
    uint8_t kind = (uint8_t)head[AT_KIND];
    size_t node_bytes = little_get16(head + AT_NODE_BYTES);
    size_t body_bytes = little_get32(head + AT_BODY_BYTES);
    if (kind < ENTRY_TERM || kind > ENTRY_HEARTBEAT) return ENTRY_NEWER;
    if (flags > (FLAG_CLOSED | FLAG_WORKS | FLAG_REACHES)) return ENTRY_NEWER;
    if ((kind != ENTRY_HEARTBEAT && flags != 0) || node_bytes > ENTRY_NAME_MAX ||
        body_bytes > ENTRY_BODY_MAX || HEADER_BYTES + node_bytes + body_bytes != signed_bytes.size)
        return ENTRY_MALFORMED;
    ret->kind = (enum entry_kind)kind;
    ret->format = format;
    ret->heartbeat.closed = (flags & FLAG_CLOSED) != 0;
    ret->heartbeat.works = (flags & FLAG_WORKS) != 0;
    ret->heartbeat.reaches = (flags & FLAG_REACHES) != 0;
    ret->term = little_get64(head + AT_TERM);
    ret->n = little_get64(head + AT_N);
    memcpy(ret->previous.bytes, head + AT_PREVIOUS, SHA256_BYTES);
    memcpy(ret->incarnation.bytes, head + AT_INCARNATION, sizeof ret->incarnation.bytes);
    ret->time_ms = little_get64(head + AT_TIME);
    ret->seq = little_get64(head + AT_SEQ);
    ret->node = str_of(head + HEADER_BYTES, node_bytes);
    if (!read_body(str_of(head + HEADER_BYTES + node_bytes, body_bytes), ret))
        return ENTRY_MALFORMED;
    ret->digest = hasher_sha256(h, bytes);
    return ENTRY_GOOD;
}

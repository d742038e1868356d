/* asked.h - what is asked of every engine, and nothing else: http_floor's second floor.
 *
 * For each request: jsmn's tokens of the body, SHA-256 of the body and of an outcome, a record
 * copied into the open block, and an event copied behind those that are to be sent. After each
 * turn: the block's checksum and its hash, which the next one carries, and one pwrite(). Events are
 * sent as soon as there are enough of them.
 *
 * Nobody is admitted, nothing is evaluated, no event is made, nothing is read again or waits for a
 * disk; and one thread does it all, which costs less than handing it to another. But for the
 * digests the bytes are zeros, as many as an engine's are on average. */
#ifndef BENCH_ASKED_H
#define BENCH_ASKED_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/check.h"
#include "crypto/crypto.h"
#include "http/server.h"
#include "journal/frame.h"
#include "json/tokens.h"

enum { ASKED_SEND_BYTES = 1 << 20, ASKED_PART_BYTES = 16 << 10, ASKED_TOKENS = 128 };

struct asked {
    size_t record_bytes, event_bytes, outcome_bytes; /* of one request, ASKED_PART_BYTES at most */
    int segment, socket;
    size_t segment_bytes, written;
    struct hasher *hasher;
    struct sha256 previous;
    size_t body, waiting; /* bytes of the open block's body, and of what is to be sent */
    char part[ASKED_PART_BYTES], block[FRAME_BYTES], events[ASKED_SEND_BYTES + ASKED_PART_BYTES];
};

/* The segment is there, with all its bytes; somebody listens at the socket and reads. */
static inline void asked_open(struct asked *a, const char *segment, const char *listener)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    size_t length = strlen(listener);
    check(length < sizeof at.sun_path);
    memcpy(at.sun_path, listener, length);
    a->socket = socket(AF_UNIX, SOCK_STREAM, 0);
    check(connect(a->socket, (struct sockaddr *)&at, sizeof at) == 0);
    a->segment = open(segment, O_RDWR);
    off_t size = lseek(a->segment, 0, SEEK_END);
    check(size >= FRAME_BYTES);
    a->segment_bytes = (size_t)size;
    a->hasher = hasher_create();
}

static inline void asked_close(struct asked *a)
{
    close(a->segment);
    close(a->socket);
    hasher_destroy(a->hasher);
}

static inline void asked_send(struct asked *a)
{
    for (size_t sent = 0; sent < a->waiting;) {
        ssize_t n = send(a->socket, a->events + sent, a->waiting - sent, 0);
        check(n > 0);
        sent += (size_t)n;
    }
    a->waiting = 0;
}

static inline void asked_seal(struct asked *a)
{
    if (a->body == 0) return;
    size_t covered = FRAME_HEADER_BYTES + a->body,
           size = (covered + FRAME_ALIGN_BYTES - 1) & ~(size_t)(FRAME_ALIGN_BYTES - 1);
    memcpy(a->block, a->previous.bytes, SHA256_BYTES);
    uint32_t sum = crc32c(0, a->block + FRAME_HEADER_BYTES, size - FRAME_HEADER_BYTES);
    memcpy(a->block + SHA256_BYTES, &sum, sizeof sum);
    a->previous = hasher_sha256(a->hasher, str_of(a->block, covered));
    if (a->written + size > a->segment_bytes) a->written = 0;
    check(pwrite(a->segment, a->block, size, (off_t)a->written) == (ssize_t)size);
    a->written += size;
    a->body = 0;
}

static inline void asked_request(struct asked *a, const struct http_exchange *x)
{
    jsmntok_t list[ASKED_TOKENS + 1];
    struct tokens tokens = {.list = list, .capacity = ASKED_TOKENS};
    bool is_plain;
    check(tokens_take(&tokens, x->body, LIMIT_JSON_DEPTH, x->arena, &is_plain));
    sha256_write_hex(hasher_sha256(a->hasher, x->body), a->part);
    sha256_write_hex(hasher_sha256(a->hasher, str_of(a->part, a->outcome_bytes)),
                     a->part + SHA256_HEX);
    if (a->body + a->record_bytes > FRAME_BODY_BYTES) asked_seal(a);
    memcpy(a->block + FRAME_HEADER_BYTES + a->body, a->part, a->record_bytes);
    a->body += a->record_bytes;
    memcpy(a->events + a->waiting, a->part, a->event_bytes);
    a->waiting += a->event_bytes;
    if (a->waiting >= ASKED_SEND_BYTES) asked_send(a);
}

#endif

/* connection.h - what server.c, request.c and connection.c share. Private to src/http.
 *
 * One thread. Who may free a connection: connection_turn() and what server.c does on a timer or
 * at its end; everybody else marks it broken and queues it, so that nobody up the stack is left
 * with a dead pointer. */
#ifndef HTTP_CONNECTION_H
#define HTTP_CONNECTION_H

#include "base/limits.h"
#include "base/list.h"
#include "http/chunk.h"
#include "http/head.h"
#include "http/memo.h"
#include "http/output.h"
#include "http/reply.h"
#include "http/route.h"

/*   HEAD --head whole--> BODY --body whole--> HAND --reply--> HEAD
 *    |                    |                    |  \--defer--> DEFERRED --resume--> HEAD
 *    |                    |                    |                  |
 *    \-end of input-------+-- refused, or not kept alive ---------+--> CLOSING
 *
 *   CLOSING --all sent--> LINGER --client closes, or a second--> freed
 *                  \--nothing unread can be left--> freed                         */
enum stage {
    STAGE_HEAD,     /* a head is being received, or nothing */
    STAGE_BODY,     /* a head was understood, its body is being received */
    STAGE_HAND,     /* the service has the request and was called */
    STAGE_DEFERRED, /* the service has the request and returned */
    STAGE_CLOSING,  /* nothing more is read; what is to be sent leaves */
    STAGE_LINGER,   /* our side has ended; input is dropped so that no reset hides the answer */
};

/* Whose clock runs. In each phase the time allowed is the same for all, so a list in order of
 * arrival is in order of deadline, and one timer serves all lists. */
enum phase {
    PHASE_NONE, /* ours to act, or a journal's: no clock */
    PHASE_NEW,  /* idle, and nothing has come yet */
    PHASE_IDLE,
    PHASE_HEAD,
    PHASE_BODY,
    PHASE_STRANGERS_BODY, /* of a client that has shown no credential */
    PHASE_WRITE,
    PHASE_LINGER,
    PHASE_COUNT
};

enum {
    SCRATCH_BYTES = 64 << 10, /* reads of one beat, each of up to half of it or more */
    LINGER_MS = 1000,
    SPARE_CONNECTIONS = 16, /* beyond connections_max, to answer 503 and linger */
    OUT_PAUSE_BYTES = LIMIT_CONNECTION_OUT_BYTES / 4, /* no further request is begun above this */
    SMALL_REPLY_BYTES = OUT_PAUSE_BYTES,              /* what every connection may have */
};

struct input {
    char *bytes; /* NULL: nothing held; in the server's scratch: only within a beat */
    size_t capacity, from, to;
    size_t used; /* the most that `to` has been: behind it is nothing of ours */
};

struct http_connection {
    struct loop_fd watch;
    struct http_server *server;
    uint32_t place;      /* in server->slots */
    uint32_t generation; /* of tokens; rises with each deferral and each new client */
    /* The other end, or whom its PROXY header names. */
    struct client_address client;

    enum stage stage;
    bool ended;               /* the client has ended its side */
    bool broken;              /* reset, or out of memory: to be freed */
    bool blocked;             /* a request may be ready, but not begun: output, gates or hold */
    bool paused;              /* not read while the server is held */
    bool write_blocked;       /* the socket took less than we had */
    bool linger;              /* something may be unread when we close */
    bool awaits_proxy_header; /* before its first request */

    /* The request that is being received or in hand. */
    struct head_memo *memo; /* of an earlier request; NULL: none was remembered yet */
    bool recalled;          /* this one's head is the memo's */
    struct head_scan scan;
    uint32_t head_size; /* 0 until the head is whole */
    uint32_t body_max;
    uint64_t length; /* Content-Length */
    size_t decoded;  /* bytes of a chunked body, right after the head */
    struct chunk_decoder chunk;
    bool framed; /* head_size, chunked and length can be relied on */
    bool chunked, expects_continue, announced, skipped_blank_line;
    bool admitted; /* the service knows who sends the body that is awaited */
    bool head_only, keep_alive, http_1_0;
    bool close_after; /* refused before its body was read */

    struct input in;
    struct output out;

    enum phase phase;
    bool phase_restart; /* the same phase, but of a new request, or with progress */
    uint64_t phase_since_ms;
    struct link phase_link;   /* server->phases[phase] */
    struct link gate_link;    /* server->gated[lane - 1], by the first gate's mark */
    struct link arrived_link; /* server->arrived: its input is in the scratch */
    struct link work_link;    /* server->work or server->held_back */

    /* While deferred: who wants to know that the client went away. */
    void (*on_gone)(void *context);
    void *on_gone_context;
    struct http_connection *next_free;
};

enum {
    SPARE_FIRST_BYTES = 128 << 10,
    SPARES_KEPT = 256, /* only the pages that were used are held */
};

struct spares {
    struct arena *kept[SPARES_KEPT];
    size_t count;
};

struct http_server {
    struct loop *loop;
    struct http_service service;
    struct http_limits limits;
    struct routes *routes;

    struct http_connection **slots; /* NULL until first used, then kept for the next client */
    size_t slot_count, slots_used;
    struct http_connection *free;
    size_t count, waiting;
    uint64_t closed_for_room;

    struct list phases[PHASE_COUNT];
    uint32_t phase_ms[PHASE_COUNT];
    struct loop_timer phase_timer;
    uint64_t phase_timer_ms; /* when it is due; UINT64_MAX: not started */

    struct list gated[HTTP_LANES];
    uint64_t reached[HTTP_LANES];

    struct list arrived;   /* a turn in this beat */
    struct list work;      /* a turn in the next beat */
    struct link work_end;  /* on it while turns are given: behind it are the next beat's */
    struct list held_back; /* a turn when the hold ends */
    struct loop_timer work_timer;
    bool held, draining;

    /* The request that is being looked at; valid where `understood` is its connection. */
    struct http_connection *understood;
    struct head head; /* where it was parsed */
    struct str content_type, content_encoding;
    struct http_exchange exchange;
    struct arena *arena; /* of the request in hand; another once that one took it away */
    struct spares spares;

    struct pool pool;
    char *scratch;
    size_t scratch_used; /* by what has arrived */
    char date[HTTP_DATE_BYTES];
    uint64_t date_until_ms;
};

static inline size_t input_size(const struct http_connection *c) { return c->in.to - c->in.from; }

static inline bool in_scratch(const struct http_server *s, const char *bytes)
{
    return (uintptr_t)bytes - (uintptr_t)s->scratch < SCRATCH_BYTES;
}

/* request.c: reads the head at the front of the input into server->head and ->exchange, finds the
 * route, and says what is wrong with it. Sets what the connection must know of the request. */
enum err request_understand(struct http_connection *c, struct fault *f);
/* An exchange that knows nothing, for faults before a head was understood. */
void request_blank(struct http_connection *c);
/* Whether the body may be of the type that the head says. */
enum err request_judge_type(const struct http_connection *c, struct fault *f);

/* spare.c: an arena in its first state; the process ends where there is no memory. */
struct arena *spare_take(struct spares *s);
void spare_give(struct spares *s, struct arena *a);
void spares_fini(struct spares *s);

/* connection.c */
void connection_ready(struct loop_fd *w, int events);
void connection_turn(struct http_connection *c); /* may free c */
void connection_free(struct http_connection *c);
void connection_refuse(struct http_connection *c, const struct fault *f); /* the rest is unread */
void connection_reply(struct http_connection *c, const struct http_reply *r);
void connection_send(struct http_connection *c);
/* After something was sent or opened outside a turn. */
void connection_eased(struct http_connection *c);

/* server.c */
void server_arrived(void *server); /* turns for all that arrived; the scratch is free again */
void server_queue_work(struct http_connection *c);
void server_phase(struct http_connection *c, enum phase phase);
void server_gate(struct http_connection *c); /* puts c in the list of its first gate */
const char *server_date(struct http_server *s);

#endif

/* connection.h - what server.c, request.c and connection.c share. Private to src/http.
 *
 * One thread. Only connection_turn(), and server.c on a timer or at its end, may free a
 * connection. All other code marks it broken and queues it, so that no caller up the stack is
 * left with a dangling pointer. */
#ifndef HTTP_CONNECTION_H
#define HTTP_CONNECTION_H

#include "base/limits.h"
#include "base/list.h"
#include "base/log_rate.h"
#include "http/chunk.h"
#include "http/head.h"
#include "http/memo.h"
#include "http/output.h"
#include "http/reply.h"
#include "http/route.h"
#include "tls/tls.h"

/*   HEAD --head whole--> BODY --body whole--> HAND --reply--> HEAD
 *    |                    |                    |  |--defer--> DEFERRED --resume--> HEAD
 *    |                    |                    |  \--park--> PARKED --unpark--> BODY
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
    STAGE_PARKED,   /* the request is whole and unread again: the service will ask for it */
    STAGE_CLOSING,  /* nothing more is read; what is to be sent leaves */
    STAGE_LINGER,   /* our side has ended; input is dropped so that no reset hides the answer */
};

/* The clock that runs. In each phase the time allowed is the same for all connections, so a list
 * in order of arrival is in order of deadline, and one timer serves all lists. */
enum phase {
    PHASE_NONE, /* the engine or its journal has to act: no clock */
    PHASE_NEW,  /* idle, and the client has sent nothing yet */
    PHASE_HANDSHAKE,
    PHASE_IDLE,
    PHASE_HEAD,
    PHASE_BODY,
    PHASE_STRANGERS_BODY, /* from a client that has shown no credential */
    PHASE_WRITE,
    PHASE_LINGER,
    PHASE_COUNT
};

enum {
    SCRATCH_BYTES = 64 << 10, /* reads of one turn, each of up to half of it or more */
    LINGER_MS = 1000,
    SPARE_CONNECTIONS = 16, /* beyond connections_max, to answer 503 and linger */
    OUT_PAUSE_BYTES = LIMIT_CONNECTION_OUT_BYTES / 4, /* no further request is begun above this */
    SMALL_REPLY_BYTES = OUT_PAUSE_BYTES,              /* what every connection may have */
};

/* What is left of the client's side; the later ones are final. */
enum peer {
    PEER_OPEN,
    PEER_ENDED,  /* the client has closed it */
    PEER_BROKEN, /* reset, or out of memory: the connection is to be freed */
};

/* Whether the input may be read, and a request in it begun. */
enum progress {
    PROGRESS_FREE,
    PROGRESS_BLOCKED, /* a request may be ready, but not begun: output, barriers or hold */
    PROGRESS_PAUSED,  /* and nothing is read while the server is held */
};

enum framing {
    FRAMING_UNKNOWN,
    FRAMING_LENGTH, /* head_size and length are valid */
    FRAMING_CHUNKED
};

/* The sender of a body that is on its way, as the service has identified it. */
enum sender { SENDER_NOT_ASKED, SENDER_STRANGER, SENDER_ADMITTED };

enum secure {
    SECURE_NOT, /* the zero value: no TLS */
    SECURE_NEW,
    SECURE_HANDSHAKE,
    SECURE, /* bytes of HTTP go through the session */
};

struct input {
    char *bytes; /* NULL: nothing held; a pointer into the server's scratch only within a turn */
    size_t capacity, from, to;
    size_t used; /* the most that `to` has been: the bytes behind it were never written */
};

struct http_connection {
    struct loop_fd watch;
    struct http_server *server;
    uint32_t place;      /* in server->slots */
    uint32_t generation; /* of tokens; increases with each deferral and each new client */
    /* The other end, or the client that its PROXY header names. */
    struct client_address client;
    struct http_notes notes; /* the service's */

    enum stage stage;
    enum peer peer;
    enum progress progress;
    bool starved;             /* no memory for its input: the request is to be refused */
    bool write_blocked;       /* the socket took less than was offered */
    bool linger;              /* its reply is the last one, and bytes may be unread when we close */
    bool awaits_proxy_header; /* before its first request */

    enum secure secure;
    struct tls_session *tls; /* NULL: bytes go to and from the socket as they are */

    /* The request that is being received or in hand. */
    struct head_memo *memo; /* of an earlier request; NULL: no head was remembered yet */
    bool recalled;          /* this request's head is the memo's */
    struct head_scan scan;
    uint32_t head_size; /* 0 until the head is complete */
    uint32_t body_max;
    uint64_t length; /* Content-Length */
    size_t decoded;  /* bytes of a chunked body, right after the head */
    struct chunk_decoder chunk;
    enum framing framing;
    enum sender sender;
    enum persistence persistence; /* what the client asks for; NOT before the head is read */
    bool expects_continue, skipped_blank_line, head_only;
    bool resumed; /* the request was parked, and is handled again */

    struct input in;
    struct output out;

    enum phase phase;
    bool phase_restart; /* start of the phase, renewed by a new request or by progress */
    uint64_t phase_since_ms;
    struct link phase_link;   /* server->phases[phase] */
    struct link barrier_link; /* server->at_barrier[lane - 1], by the first barrier's block */
    struct link arrived_link; /* server->arrived: its input is in the scratch */
    /* server->work or server->held_back; before HTTP: server->handshakes_… */
    struct link work_link;

    /* While deferred: called when the client goes away. */
    void (*on_gone)(void *context);
    void *on_gone_context;
    struct http_connection *next_free;
};

enum {
    SPARE_FIRST_BYTES = 128 << 10,
    SPARES_KEPT = 256, /* only the pages that were used stay resident */
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
    void (*phase_due)(struct loop_timer *t), (*work_due)(struct loop_timer *t); /* server.c's */
    uint64_t phase_timer_ms; /* when it is due; UINT64_MAX: not started */

    struct list at_barrier[HTTP_LANES];
    uint64_t reached[HTTP_LANES];

    struct list arrived; /* a turn in this turn */
    struct list work;    /* a turn in the next turn */
    /* on the list while turns are run: the connections behind it belong to the next turn */
    struct link work_end;
    struct list held_back; /* a turn when the hold ends */

    /* handshakes that can make a step, and those that wait for a place */
    struct list handshakes_ready, handshakes_waiting;
    struct loop_timer handshake_timer;
    void (*handshake_due)(struct loop_timer *t);
    void (*secure_begin)(struct http_connection *c);
    struct http_handshakes handshakes;
    struct log_rate handshake_log;

    struct loop_timer work_timer;
    bool held, draining;

    /* The request that is being read; valid if `understood` is its connection. */
    struct http_connection *understood;
    struct head head; /* where it was parsed */
    struct str content_type, content_encoding;
    struct http_exchange exchange;
    struct arena *arena; /* of the current request; replaced when a request takes it away */
    struct spares spares;

    struct pool pool;
    char *scratch;
    size_t scratch_used; /* by the arrival of input */
    char date[HTTP_DATE_BYTES];
    uint64_t date_until_ms;
};

static inline size_t input_size(const struct http_connection *c) { return c->in.to - c->in.from; }

static inline bool in_scratch(const struct http_server *s, const char *bytes)
{
    return (uintptr_t)bytes - (uintptr_t)s->scratch < SCRATCH_BYTES;
}

/* request.c: reads the head at the front of the input into server->head and ->exchange, finds
 * the route, and reports errors. Sets the fields of the connection that describe the request. */
enum err request_understand(struct http_connection *c, struct fault *f);
/* An exchange without content, for faults before a head was read. */
void request_blank(struct http_connection *c);
/* Whether the head allows a body of this type. */
enum err request_judge_type(const struct http_connection *c, struct fault *f);

/* spare.c: an arena in its initial state; it is starved if there is no memory. */
struct arena *spare_take(struct spares *s);
void spare_give(struct spares *s, struct arena *a);
void spares_fini(struct spares *s);

/* connection.c */
void connection_ready(struct loop_fd *w, int events);
/* A turn that was queued. Input that TLS has read already counts as input that is ready. */
void connection_work(struct http_connection *c);
void connection_drop_input(struct http_connection *c);
void connection_turn(struct http_connection *c);                          /* may free c */
void connection_refuse(struct http_connection *c, const struct fault *f); /* the rest is unread */
void connection_reply(struct http_connection *c, const struct http_reply *r);
void connection_send(struct http_connection *c);
/* Instead of the replies behind the first closed barrier: this one, and the end of the connection. What
 * its client had sent behind them has no answer. */
void connection_lose(struct http_connection *c, const struct http_reply *instead);
/* After output was sent or a barrier was opened outside a turn. */
void connection_eased(struct http_connection *c);

/* turns for all connections of this server with input; then the scratch is free again */
void connections_arrived(void *server);

/* handshake.c */
void handshake_begin(struct http_connection *c); /* before its first byte of TLS */
void handshakes_step(struct loop_timer *t);

/* lists.c */
void connection_free(struct http_connection *c);
void server_phase_timer(struct http_server *s, uint64_t due_ms); /* unless it is due before that */
void server_queue_work(struct http_connection *c);
void server_phase(struct http_connection *c, enum phase phase);
void server_barrier(struct http_connection *c); /* puts c in the list of its first barrier */
const char *server_date(struct http_server *s);

#endif

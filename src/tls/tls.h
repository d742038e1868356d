/* tls.h - TLS 1.2 and 1.3 on non-blocking sockets, by OpenSSL: for the servers of both programs, and
 * for all clients of this project.
 *
 * A `struct tls` holds what one program's files contain: its certificate and key, the authorities of
 * its clients, the authorities of its peers. The files are read again when they change; sessions
 * that exist keep what they began with. A session belongs to one thread, and its socket to the
 * caller. Any thread may make sessions. */
#ifndef TLS_TLS_H
#define TLS_TLS_H

#include <sys/types.h>
#include <sys/uio.h>

#include "base/fault.h"

struct tls;

/* Paths; "" or NULL: none. All are PEM. */
struct tls_files {
    const char *cert_file; /* the chain, this program's certificate first */
    const char *key_file;
    /* Authorities that sign clients' certificates: then each client must have one. The file may
     * also have revocation lists (CRLs), one for each authority. */
    const char *client_ca_file;
    const char *ca_file; /* authorities of peers, and revocation lists; none: the system's */
    bool serves;         /* sessions of clients will be accepted: needs a certificate */
    bool insecure_peers; /* the certificates of peers are not verified */
    /* The names of these options in faults: "tls.", or "--" of the command line. */
    const char *prefix;
};

/* Copies `files`. ERR_BAD_VALUE, ERR_NOT_FOUND: *f names the option, the file and what is wrong.
 * ERR_FULL. */
enum err tls_create(const struct tls_files *files, struct tls **ret, struct fault *f);
void tls_destroy(struct tls *t); /* accepts NULL; sessions may outlive it */

/* Reads the files if they have changed since the last look, or in any case (`again`). New content
 * that cannot be used is refused: what was in use stays in use. Logs the outcome. One thread at a
 * time; accepts NULL. */
void tls_keep_up(struct tls *t, bool again);

/* False: *to is a problem of its certificate or of its files, and its effect, for /healthz. Any
 * thread. */
enum { TLS_TROUBLE_TEXT = 400, TLS_EXPIRES_SOON_DAYS = 7 };
bool tls_is_well(struct tls *t, uint64_t now_ms, char to[TLS_TROUBLE_TEXT]);

/* -- sessions ---------------------------------------------------------------------------- */

struct tls_session;

/* The server's side. `early` are bytes that were already read from the socket; they are copied.
 * NULL: no memory. */
struct tls_session *tls_accept(struct tls *t, int fd, struct str early);
/* The client's side. The peer's certificate must be valid for `host`, a name or an IP address. The
 * last session with that host under the same files is resumed, if the peer takes it. */
struct tls_session *tls_connect(struct tls *t, int fd, const char *host);

enum tls_step { TLS_DONE, TLS_WANTS_READ, TLS_WANTS_WRITE, TLS_FAILED };
/* Continues the handshake. TLS_FAILED: *f has the reason. f may be NULL. */
enum tls_step tls_handshake(struct tls_session *s, struct fault *f);

/* Like recv() and send() after the handshake: the number of bytes; 0 is the end of the peer's side;
 * -1 with errno (EAGAIN: wait for the socket). Reads until `size` bytes or no more have arrived. An
 * unfinished write must be continued with the same bytes; more may follow them. */
ssize_t tls_read(struct tls_session *s, char *to, size_t size);
ssize_t tls_write(struct tls_session *s, const char *from, size_t size);
/* The same for two pieces, in as few records as possible. */
ssize_t tls_write_both(struct tls_session *s, const struct iovec pieces[2]);
/* Bytes were read from the socket that tls_read() has not returned yet: the socket will not become
 * ready for them. */
bool tls_has_more(const struct tls_session *s);

/* After a failure of the above: the reason, such as the peer's alert; NULL: errno's text has it. */
const char *tls_why(const struct tls_session *s);

/* Tells the peer that no more will be sent. */
void tls_shut(struct tls_session *s);
/* tls_shut(), then frees it; accepts NULL. */
void tls_end(struct tls_session *s);

#endif

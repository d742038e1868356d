/* session.c - one connection: handshake, records in and out.
 *
 * OpenSSL reads and writes the socket itself, through a small BIO: the bytes that were read before
 * the handshake come first, and a closed socket raises no signal. */
#include <errno.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/check.h"
#include "crypto/crypto.h"
#include "tls/context.h"

enum { RECORD_BYTES = 16384 };

struct tls_session {
    SSL *ssl;
    int fd;
    bool established, broken, has_more;
    bool ended; /* the socket */
    int number; /* errno of the socket; 0: no error */
    const char *why;
    char *early;
    size_t early_from, early_size;
};

/* -- the socket -------------------------------------------------------------------------- */

static int outcome(BIO *b, struct tls_session *s, ssize_t n, int retry)
{
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        BIO_set_flags(b, retry | BIO_FLAGS_SHOULD_RETRY);
    else if (n < 0)
        s->number = errno;
    return (int)n;
}

static int socket_read(BIO *b, char *to, int size)
{
    struct tls_session *s = BIO_get_data(b);
    BIO_clear_retry_flags(b);
    size_t early = s->early_size - s->early_from;
    if (early > 0) {
        if (early > (size_t)size) early = (size_t)size;
        memcpy(to, s->early + s->early_from, early);
        s->early_from += early;
        return (int)early;
    }
    ssize_t got = recv(s->fd, to, (size_t)size, 0);
    if (got == 0) s->ended = true;
    return outcome(b, s, got, BIO_FLAGS_READ);
}

static int socket_write(BIO *b, const char *from, int size)
{
    struct tls_session *s = BIO_get_data(b);
    BIO_clear_retry_flags(b);
    return outcome(b, s, send(s->fd, from, (size_t)size, MSG_NOSIGNAL), BIO_FLAGS_WRITE);
}

static long socket_control(BIO *b, int command, long number, void *what)
{
    (void)number, (void)what;
    const struct tls_session *s = BIO_get_data(b);
    if (command == BIO_CTRL_FLUSH) return 1;
    return command == BIO_CTRL_EOF ? s->ended : 0;
}

static BIO_METHOD *method;

static void make_method(void)
{
    method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket");
    check(method != NULL && BIO_meth_set_read(method, socket_read) == 1 &&
          BIO_meth_set_write(method, socket_write) == 1 &&
          BIO_meth_set_ctrl(method, socket_control) == 1);
}

static BIO *socket_bio(struct tls_session *s)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    check(pthread_once(&once, make_method) == 0);
    BIO *b = BIO_new(method);
    if (b == NULL) return NULL;
    BIO_set_data(b, s);
    BIO_set_init(b, 1);
    return b;
}

/* -- beginning and end ------------------------------------------------------------------- */

static struct tls_session *session_new(struct tls *t, int fd, bool serves)
{
    struct tls_session *s = calloc(1, sizeof *s);
    if (s == NULL) return NULL;
    s->fd = fd;
    s->ssl = tls_ssl(t, serves);
    BIO *b = s->ssl == NULL ? NULL : socket_bio(s);
    if (b == NULL) {
        tls_end(s);
        ERR_clear_error();
        return NULL;
    }
    SSL_set_bio(s->ssl, b, b);
    return s;
}

struct tls_session *tls_accept(struct tls *t, int fd, struct str early)
{
    struct tls_session *s = session_new(t, fd, true);
    if (s == NULL) return NULL;
    SSL_set_accept_state(s->ssl);
    if (early.size == 0) return s;
    s->early = malloc(early.size);
    if (s->early == NULL) {
        tls_end(s);
        return NULL;
    }
    memcpy(s->early, early.bytes, early.size);
    s->early_size = early.size;
    return s;
}

/* A name is sent to the peer (SNI), an address is not (RFC 6066). */
static bool expect_host(SSL *ssl, const char *host)
{
    X509_VERIFY_PARAM *param = SSL_get0_param(ssl);
    X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    if (X509_VERIFY_PARAM_set1_ip_asc(param, host) == 1) return true;
    return X509_VERIFY_PARAM_set1_host(param, host, 0) == 1 &&
           SSL_set_tlsext_host_name(ssl, host) == 1;
}

struct tls_session *tls_connect(struct tls *t, int fd, const char *host)
{
    struct tls_session *s = session_new(t, fd, false);
    if (s == NULL) return NULL;
    SSL_set_connect_state(s->ssl);
    if (expect_host(s->ssl, host)) {
        resumption_offer(s->ssl, host);
        return s;
    }
    tls_end(s);
    ERR_clear_error();
    return NULL;
}

void tls_shut(struct tls_session *s)
{
    if (!s->established || s->broken) return;
    ERR_clear_error();
    (void)SSL_shutdown(s->ssl); /* once: the socket may be full, or the peer gone */
    ERR_clear_error();
}

void tls_end(struct tls_session *s)
{
    if (s == NULL) return;
    if (s->ssl != NULL) tls_shut(s);
    SSL_free(s->ssl);
    free(s->early);
    free(s);
}

/* -- handshake --------------------------------------------------------------------------- */

static enum err handshake_fault(const struct tls_session *s, struct fault *f)
{
    long verified = SSL_get_verify_result(s->ssl);
    unsigned long last = ERR_peek_last_error();
    if (ERR_GET_REASON(last) == SSL_R_CERTIFICATE_VERIFY_FAILED && verified != X509_V_OK)
        return fault_set(f, ERR_CLOSED, "", "the peer's certificate is refused: %s",
                         X509_verify_cert_error_string(verified));
    const char *why = ERR_reason_error_string(last);
    if (s->number != 0) why = strerror(s->number);
    if (why == NULL || s->ended) why = "the peer closed the connection";
    return fault_set(f, ERR_CLOSED, "", "the TLS handshake failed: %s", why);
}

enum tls_step tls_handshake(struct tls_session *s, struct fault *f)
{
    ERR_clear_error();
    int n = SSL_do_handshake(s->ssl);
    if (n == 1) {
        s->established = true;
        s->has_more = SSL_has_pending(s->ssl) == 1 || s->early_from < s->early_size;
        return TLS_DONE;
    }
    switch (SSL_get_error(s->ssl, n)) {
    case SSL_ERROR_WANT_READ: return TLS_WANTS_READ;
    case SSL_ERROR_WANT_WRITE: return TLS_WANTS_WRITE;
    default: break;
    }
    s->broken = true;
    (void)handshake_fault(s, f);
    ERR_clear_error();
    return TLS_FAILED;
}

/* -- records ----------------------------------------------------------------------------- */

static ssize_t failed(struct tls_session *s, int n, int otherwise)
{
    int why = SSL_get_error(s->ssl, n);
    if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE) {
        errno = EAGAIN;
        return -1;
    }
    if (why == SSL_ERROR_ZERO_RETURN) return 0;
    s->broken = true;
    s->why = s->number == 0 ? ERR_reason_error_string(ERR_peek_last_error()) : NULL;
    ERR_clear_error();
    errno = s->number != 0 ? s->number : otherwise;
    return -1;
}

ssize_t tls_read(struct tls_session *s, char *to, size_t size)
{
    size_t have = 0;
    s->has_more = false;
    while (have < size) {
        size_t most = size - have < INT_MAX ? size - have : INT_MAX;
        ERR_clear_error();
        int n = SSL_read(s->ssl, to + have, (int)most);
        if (n <= 0) {
            ssize_t outcome_now = failed(s, n, ECONNRESET);
            if (have == 0) return outcome_now;
            s->has_more = outcome_now == 0 || errno != EAGAIN; /* the end: for the next call */
            return (ssize_t)have;
        }
        have += (size_t)n;
        if (SSL_has_pending(s->ssl) == 0) return (ssize_t)have;
    }
    s->has_more = true;
    return (ssize_t)have;
}

bool tls_has_more(const struct tls_session *s) { return s->has_more; }

const char *tls_why(const struct tls_session *s) { return s->why; }

ssize_t tls_write(struct tls_session *s, const char *from, size_t size)
{
    if (size == 0) return 0;
    ERR_clear_error();
    int n = SSL_write(s->ssl, from, (int)(size < INT_MAX ? size : INT_MAX));
    return n > 0 ? n : failed(s, n, EPIPE);
}

ssize_t tls_write_both(struct tls_session *s, const struct iovec pieces[2])
{
    size_t first = pieces[0].iov_len, second = pieces[1].iov_len;
    if (first == 0) return tls_write(s, pieces[1].iov_base, second);
    if (second == 0 || first >= RECORD_BYTES) return tls_write(s, pieces[0].iov_base, first);
    char record[RECORD_BYTES];
    size_t rest = RECORD_BYTES - first < second ? RECORD_BYTES - first : second;
    memcpy(record, pieces[0].iov_base, first);
    memcpy(record + first, pieces[1].iov_base, rest);
    ssize_t sent = tls_write(s, record, first + rest);
    memory_wipe(record, first + rest); /* credentials */
    return sent;
}

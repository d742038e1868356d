/* context.h - what the files of a `struct tls` contain, as OpenSSL's contexts. Private to src/tls. */
#ifndef TLS_CONTEXT_H
#define TLS_CONTEXT_H

#include <openssl/ssl.h>

#include "tls/tls.h"

struct tls_text { /* the content of one file */
    const char *option, *path;
    char *bytes; /* NULL: there is no such file */
    size_t size;
};

enum { TEXT_CERT, TEXT_KEY, TEXT_CLIENT_CA, TEXT_CA, TEXT_COUNT };

/* ERR_BAD_VALUE: the texts are no valid set. The server's context is NULL unless `serves`. */
struct contexts {
    SSL_CTX *server, *client;
    uint64_t expires_ms; /* of the certificate; 0: there is none */
};
enum err contexts_make(const struct tls_text texts[TEXT_COUNT], bool serves, bool insecure_peers,
                       struct contexts *ret, struct fault *f);
void contexts_free(struct contexts *c);

/* tls.c: a connection under what is in use now. NULL: no memory. */
SSL *tls_ssl(struct tls *t, bool serves);

/* tickets.c: session tickets under keys of this context alone. False: no memory. */
bool tickets_begin(SSL_CTX *server);

/* resumption.c: the last session with each peer of this context. False: no memory. */
bool resumption_begin(SSL_CTX *client);
/* Before the handshake: offers the last session with that host, and keeps what the peer gives. */
void resumption_offer(SSL *ssl, const char *host);

#endif

/* context.c - certificates, keys and authorities, read from PEM and checked against each other. */
#include "tls/context.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <string.h>
#include <time.h>

#include "base/check.h"

/* The ciphers of TLS 1.2: forward secrecy and authenticated encryption only. Those of TLS 1.3 are
 * all fine. */
#define CIPHERS_1_2 "ECDHE+AESGCM:ECDHE+CHACHA20"

static const unsigned char alpn[] = "\x08http/1.1"; /* with its length before it */
enum { ALPN_BYTES = sizeof alpn - 1 };

static enum err wrong(const struct tls_text *text, const char *how, struct fault *f)
{
    const char *why = ERR_reason_error_string(ERR_peek_last_error());
    enum err err =
        fault_set(f, ERR_BAD_VALUE, "", "%s: %s %s%s%s%s", text->option, text->path, how,
                  why != NULL ? " (" : "", why != NULL ? why : "", why != NULL ? ")" : "");
    ERR_clear_error();
    return err;
}

static enum err no_memory(struct fault *f)
{
    ERR_clear_error();
    return fault_set(f, ERR_FULL, "", "there is no memory for TLS");
}

/* A key under a password is refused: there is no terminal to ask for it. */
static int no_password(char *to, int size, int writing, void *context)
{
    (void)to, (void)size, (void)writing, (void)context;
    return -1;
}

static BIO *text_open(const struct tls_text *text)
{
    return BIO_new_mem_buf(text->bytes, (int)text->size);
}

/* -- own certificate --------------------------------------------------------------------- */

static uint64_t expires_ms(const X509 *certificate)
{
    struct tm at;
    if (ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &at) != 1) return 1;
    time_t s = timegm(&at);
    return s < 1 ? 1 : (uint64_t)s * 1000;
}

static enum err use_certificate(SSL_CTX *ctx, const struct tls_text *text, uint64_t *ret_expires_ms,
                                struct fault *f)
{
    BIO *from = text_open(text);
    if (from == NULL) return no_memory(f);
    enum err err = ERR_OK;
    bool is_first = true;
    for (X509 *one;
         err == ERR_OK && (one = PEM_read_bio_X509(from, NULL, no_password, NULL)) != NULL;
         is_first = false) {
        if (is_first) *ret_expires_ms = expires_ms(one);
        if ((is_first ? SSL_CTX_use_certificate(ctx, one)
                      : (int)SSL_CTX_add1_chain_cert(ctx, one)) != 1)
            err = wrong(text, "has a certificate that cannot be used", f);
        X509_free(one);
    }
    BIO_free(from);
    if (err != ERR_OK) return err;
    unsigned long last = ERR_peek_last_error();
    bool is_end = ERR_GET_LIB(last) == ERR_LIB_PEM && ERR_GET_REASON(last) == PEM_R_NO_START_LINE;
    if (is_first || !is_end) return wrong(text, "has no certificate in PEM", f);
    ERR_clear_error();
    return ERR_OK;
}

static enum err use_key(SSL_CTX *ctx, const struct tls_text *text, struct fault *f)
{
    BIO *from = text_open(text);
    if (from == NULL) return no_memory(f);
    EVP_PKEY *key = PEM_read_bio_PrivateKey(from, NULL, no_password, NULL);
    BIO_free(from);
    if (key == NULL) return wrong(text, "has no private key in PEM without a password", f);
    bool fits = SSL_CTX_use_PrivateKey(ctx, key) == 1 && SSL_CTX_check_private_key(ctx) == 1;
    EVP_PKEY_free(key);
    return fits ? ERR_OK : wrong(text, "does not belong to the certificate", f);
}

static enum err use_pair(SSL_CTX *ctx, const struct tls_text texts[TEXT_COUNT],
                         uint64_t *ret_expires_ms, struct fault *f)
{
    enum err err = use_certificate(ctx, &texts[TEXT_CERT], ret_expires_ms, f);
    return err == ERR_OK ? use_key(ctx, &texts[TEXT_KEY], f) : err;
}

/* -- authorities ------------------------------------------------------------------------- */

/* Takes the certificates and revocation lists of a text into the store; `names` (may be NULL) gets
 * the names of the authorities. */
static enum err use_authorities(SSL_CTX *ctx, const struct tls_text *text,
                                STACK_OF(X509_NAME) * names, struct fault *f)
{
    X509_STORE *store = SSL_CTX_get_cert_store(ctx);
    BIO *from = text_open(text);
    if (from == NULL) return no_memory(f);
    STACK_OF(X509_INFO) *found = PEM_X509_INFO_read_bio(from, NULL, no_password, NULL);
    BIO_free(from);
    int certificates = 0, lists = 0;
    bool fine = found != NULL;
    for (int i = 0; fine && i < sk_X509_INFO_num(found); i++) {
        const X509_INFO *one = sk_X509_INFO_value(found, i);
        if (one->x509 != NULL) {
            fine = X509_STORE_add_cert(store, one->x509) == 1;
            if (fine && names != NULL) {
                X509_NAME *name = X509_NAME_dup(X509_get_subject_name(one->x509));
                fine = name != NULL && sk_X509_NAME_push(names, name) > 0;
            }
            certificates++;
        }
        if (one->crl != NULL) {
            fine = fine && X509_STORE_add_crl(store, one->crl) == 1;
            lists++;
        }
    }
    sk_X509_INFO_pop_free(found, X509_INFO_free);
    if (!fine || certificates == 0) return wrong(text, "has no certificate in PEM", f);
    if (lists > 0) X509_STORE_set_flags(store, X509_V_FLAG_CRL_CHECK);
    ERR_clear_error();
    return ERR_OK;
}

static enum err demand_certificates(SSL_CTX *ctx, const struct tls_text *text, struct fault *f)
{
    if (text->bytes == NULL) return ERR_OK;
    STACK_OF(X509_NAME) *names = sk_X509_NAME_new_null();
    if (names == NULL) return no_memory(f);
    enum err err = use_authorities(ctx, text, names, f);
    SSL_CTX_set_client_CA_list(ctx, names);
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    return err;
}

static enum err trust_peers(SSL_CTX *ctx, const struct tls_text *text, bool insecure,
                            struct fault *f)
{
    SSL_CTX_set_verify(ctx, insecure ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, NULL);
    if (text->bytes != NULL) return use_authorities(ctx, text, NULL, f);
    return SSL_CTX_set_default_verify_paths(ctx) == 1 ? ERR_OK : no_memory(f);
}

/* -- contexts ---------------------------------------------------------------------------- */

/* A client that speaks no HTTP/1.1 is refused here; without ALPN a client is taken at its word. */
static int choose_protocol(SSL *ssl, const unsigned char **ret, unsigned char *ret_size,
                           const unsigned char *offered, unsigned offered_size, void *context)
{
    (void)ssl, (void)context;
    unsigned char *chosen;
    if (SSL_select_next_proto(&chosen, ret_size, alpn, ALPN_BYTES, offered, offered_size) !=
        OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *ret = chosen;
    return SSL_TLSEXT_ERR_OK;
}

static SSL_CTX *context_new(const SSL_METHOD *method)
{
    SSL_CTX *ctx = SSL_CTX_new(method);
    if (ctx == NULL) return NULL;
    /* No compression (CRIME), no renegotiation: neither is of use to HTTP with JSON. */
    SSL_CTX_set_options(ctx, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION |
                                 SSL_OP_CLEANSE_PLAINTEXT | SSL_OP_CIPHER_SERVER_PREFERENCE |
                                 SSL_OP_PRIORITIZE_CHACHA);
    /* An idle connection holds no buffers. */
    SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                              SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_read_ahead(ctx, 1); /* header and content of a record in one system call */
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    if (SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) == 1 &&
        SSL_CTX_set_cipher_list(ctx, CIPHERS_1_2) == 1)
        return ctx;
    SSL_CTX_free(ctx);
    return NULL;
}

static enum err make_server(const struct tls_text texts[TEXT_COUNT], struct contexts *c,
                            struct fault *f)
{
    static const unsigned char id[] = "writ";
    c->server = context_new(TLS_server_method());
    if (c->server == NULL || !tickets_begin(c->server)) return no_memory(f);
    /* A request tells its own end, so a connection that ends without notice cannot cut one. */
    SSL_CTX_set_options(c->server, SSL_OP_IGNORE_UNEXPECTED_EOF);
    SSL_CTX_set_num_tickets(c->server, 1);
    SSL_CTX_set_alpn_select_cb(c->server, choose_protocol, NULL);
    if (SSL_CTX_set_session_id_context(c->server, id, sizeof id - 1) != 1) return no_memory(f);
    enum err err = use_pair(c->server, texts, &c->expires_ms, f);
    return err == ERR_OK ? demand_certificates(c->server, &texts[TEXT_CLIENT_CA], f) : err;
}

static enum err make_client(const struct tls_text texts[TEXT_COUNT], bool insecure_peers,
                            struct contexts *c, struct fault *f)
{
    c->client = context_new(TLS_client_method());
    if (c->client == NULL || SSL_CTX_set_alpn_protos(c->client, alpn, ALPN_BYTES) != 0 ||
        !resumption_begin(c->client))
        return no_memory(f);
    enum err err = trust_peers(c->client, &texts[TEXT_CA], insecure_peers, f);
    if (err != ERR_OK || texts[TEXT_CERT].bytes == NULL) return err;
    return use_pair(c->client, texts, &c->expires_ms, f);
}

enum err contexts_make(const struct tls_text texts[TEXT_COUNT], bool serves, bool insecure_peers,
                       struct contexts *ret, struct fault *f)
{
    struct contexts c = {0};
    ERR_clear_error();
    enum err err = make_client(texts, insecure_peers, &c, f);
    if (err == ERR_OK && serves) err = make_server(texts, &c, f);
    if (err != ERR_OK)
        contexts_free(&c);
    else
        *ret = c;
    return err;
}

void contexts_free(struct contexts *c)
{
    SSL_CTX_free(c->server);
    SSL_CTX_free(c->client);
    *c = (struct contexts){0};
}

/* tickets.c - the keys of session tickets (RFC 5077, RFC 8446 4.6.1).
 *
 * A ticket is a session that the client keeps for the server, encrypted under a key that only the
 * server has. Who gets that key can read the recorded sessions of TLS 1.2, so a key encrypts for
 * an hour and decrypts for one more. Keys belong to one context: new certificates or authorities
 * begin with new keys, and no client resumes a session that other authorities have allowed. */
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/world.h"
#include "crypto/crypto.h"
#include "tls/context.h"

enum { NAME_BYTES = 16, KEY_BYTES = 32, IV_BYTES = 16, KEYS = 2 };
#define TURN_NS (3600ull * 1000000000ull)

struct ticket_key {
    unsigned char name[NAME_BYTES], cipher[KEY_BYTES], mac[KEY_BYTES];
    uint64_t made_ns; /* 0: there is none */
};

struct tickets {
    pthread_mutex_t lock;
    struct ticket_key keys[KEYS]; /* the newest first */
};

static void tickets_free(void *parent, void *what, CRYPTO_EX_DATA *data, int index, long argl,
                         void *argp)
{
    (void)parent, (void)data, (void)index, (void)argl, (void)argp;
    struct tickets *t = what;
    if (t == NULL) return;
    memory_wipe(t->keys, sizeof t->keys);
    pthread_mutex_destroy(&t->lock);
    free(t);
}

static int tickets_index;
static void find_index(void)
{
    tickets_index = SSL_CTX_get_ex_new_index(0, NULL, NULL, NULL, tickets_free);
    check(tickets_index >= 0);
}

static int index_of_tickets(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    check(pthread_once(&once, find_index) == 0);
    return tickets_index;
}

/* Under the lock. */
static void turn(struct tickets *t, uint64_t now_ns)
{
    struct ticket_key *newest = &t->keys[0], *last = &t->keys[1];
    if (newest->made_ns == 0 || now_ns - newest->made_ns >= TURN_NS) {
        *last = *newest;
        crypto_random(newest, sizeof *newest);
        newest->made_ns = now_ns;
    }
    if (last->made_ns != 0 && now_ns - last->made_ns >= 2 * TURN_NS)
        memory_wipe(last, sizeof *last);
}

/* A copy of the newest key, or of the key with that name; false: there is none. */
static bool find_key(struct tickets *t, const unsigned char *name, struct ticket_key *ret,
                     bool *ret_newest)
{
    bool found = false;
    pthread_mutex_lock(&t->lock);
    turn(t, world_monotonic_ns());
    for (int i = 0; i < KEYS && !found; i++) {
        const struct ticket_key *k = &t->keys[i];
        found = k->made_ns != 0 && (name == NULL || memcmp(k->name, name, NAME_BYTES) == 0);
        if (found) *ret = *k;
        *ret_newest = i == 0;
    }
    pthread_mutex_unlock(&t->lock);
    return found;
}

static bool mac_begin(EVP_MAC_CTX *mac, struct ticket_key *k)
{
    char digest[] = "SHA256";
    OSSL_PARAM params[] = {
        OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_KEY, k->mac, sizeof k->mac),
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, sizeof digest - 1),
        OSSL_PARAM_construct_end()};
    return EVP_MAC_CTX_set_params(mac, params) == 1;
}

/* OpenSSL's contract: -1 error; 0 no such key, a full handshake follows; 1 fine; 2 fine, and the
 * client gets a new ticket. */
static int ticket_key(SSL *ssl, unsigned char *name, unsigned char *iv, EVP_CIPHER_CTX *cipher,
                      EVP_MAC_CTX *mac, int encrypts)
{
    struct tickets *t = SSL_CTX_get_ex_data(SSL_get_SSL_CTX(ssl), index_of_tickets());
    struct ticket_key k;
    bool is_newest = false;
    if (!find_key(t, encrypts ? NULL : name, &k, &is_newest)) return 0;
    bool fine = mac_begin(mac, &k);
    if (encrypts) {
        memcpy(name, k.name, NAME_BYTES);
        crypto_random(iv, IV_BYTES);
        fine = fine && EVP_EncryptInit_ex(cipher, EVP_aes_256_cbc(), NULL, k.cipher, iv) == 1;
    } else {
        fine = fine && EVP_DecryptInit_ex(cipher, EVP_aes_256_cbc(), NULL, k.cipher, iv) == 1;
    }
    memory_wipe(&k, sizeof k);
    return !fine ? -1 : encrypts || is_newest ? 1 : 2;
}

/* OpenSSL looks at a client's certificate in full handshakes only, and each resumed one brings a
 * new ticket: without this, a session would go on for ever after its certificate has expired. */
static SSL_TICKET_RETURN while_it_is_valid(SSL *ssl, SSL_SESSION *session,
                                           const unsigned char *name, size_t name_size,
                                           SSL_TICKET_STATUS status, void *context)
{
    (void)ssl, (void)name, (void)name_size, (void)context;
    if (status != SSL_TICKET_SUCCESS && status != SSL_TICKET_SUCCESS_RENEW)
        return SSL_TICKET_RETURN_IGNORE_RENEW;
    const X509 *client = SSL_SESSION_get0_peer(session);
    if (client != NULL && X509_cmp_current_time(X509_get0_notAfter(client)) <= 0)
        return SSL_TICKET_RETURN_IGNORE_RENEW;
    return status == SSL_TICKET_SUCCESS ? SSL_TICKET_RETURN_USE : SSL_TICKET_RETURN_USE_RENEW;
}

bool tickets_begin(SSL_CTX *server)
{
    struct tickets *t = calloc(1, sizeof *t);
    if (t == NULL) return false;
    pthread_mutex_init(&t->lock, NULL);
    if (SSL_CTX_set_ex_data(server, index_of_tickets(), t) != 1) {
        pthread_mutex_destroy(&t->lock);
        free(t);
        return false;
    }
    SSL_CTX_set_timeout(server, TURN_NS / 1000000000);
    return SSL_CTX_set_tlsext_ticket_key_evp_cb(server, ticket_key) == 1 &&
           SSL_CTX_set_session_ticket_cb(server, NULL, while_it_is_valid, NULL) == 1;
}

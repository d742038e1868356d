/* resumption.c - the last session with each peer, for the next connection to it.
 *
 * A resumed session skips the peer's certificate, which was verified when the session began, and for
 * that host only. So a session is offered to that host alone, a place never gets another host, and
 * all sessions end with their context, which new files replace. What a peer gives in a resumed
 * session is not kept: otherwise a session could be renewed for ever, and its certificate never be
 * verified again. Threads share a context, so sessions are copied in and out under the lock. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "tls/context.h"

enum { PEERS_MAX = 8, HOST_BYTES = 256 }; /* further peers, and longer names, are not resumed */

struct kept {
    char host[HOST_BYTES]; /* "": this place and those behind it are free */
    SSL_SESSION *session;  /* NULL: the peer has given none */
};

struct kept_sessions {
    pthread_mutex_t lock;
    struct kept peers[PEERS_MAX];
};

static void kept_free(void *parent, void *what, CRYPTO_EX_DATA *data, int index, long argl,
                      void *argp)
{
    (void)parent, (void)data, (void)index, (void)argl, (void)argp;
    struct kept_sessions *all = what;
    if (all == NULL) return;
    for (int i = 0; i < PEERS_MAX; i++) SSL_SESSION_free(all->peers[i].session);
    pthread_mutex_destroy(&all->lock);
    free(all);
}

static int kept_index;
static void find_index(void)
{
    kept_index = SSL_CTX_get_ex_new_index(0, NULL, NULL, NULL, kept_free);
    check(kept_index >= 0);
}

static struct kept_sessions *kept_of(const SSL *ssl)
{
    return SSL_CTX_get_ex_data(SSL_get_SSL_CTX(ssl), kept_index);
}

/* OpenSSL's contract: 0, the session stays its own. */
static int keep(SSL *ssl, SSL_SESSION *session)
{
    struct kept *place = SSL_get_app_data(ssl);
    if (place == NULL || SSL_session_reused(ssl) == 1) return 0;
    SSL_SESSION *next = SSL_SESSION_dup(session);
    if (next == NULL) return 0;
    struct kept_sessions *all = kept_of(ssl);
    pthread_mutex_lock(&all->lock);
    SSL_SESSION *before = place->session;
    place->session = next;
    pthread_mutex_unlock(&all->lock);
    SSL_SESSION_free(before);
    return 0;
}

void resumption_offer(SSL *ssl, const char *host)
{
    if (host[0] == '\0' || strlen(host) >= HOST_BYTES) return;
    struct kept_sessions *all = kept_of(ssl);
    struct kept *place = NULL;
    SSL_SESSION *last = NULL;
    pthread_mutex_lock(&all->lock);
    for (int i = 0; i < PEERS_MAX && place == NULL; i++) {
        struct kept *k = &all->peers[i];
        if (k->host[0] == '\0') memcpy(k->host, host, strlen(host) + 1);
        if (strcmp(k->host, host) == 0) place = k;
    }
    if (place != NULL && place->session != NULL) last = SSL_SESSION_dup(place->session);
    pthread_mutex_unlock(&all->lock);
    SSL_set_app_data(ssl, place);
    if (last != NULL) (void)SSL_set_session(ssl, last); /* a full handshake otherwise */
    SSL_SESSION_free(last);
}

bool resumption_begin(SSL_CTX *client)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    check(pthread_once(&once, find_index) == 0);
    struct kept_sessions *all = calloc(1, sizeof *all);
    if (all == NULL) return false;
    pthread_mutex_init(&all->lock, NULL);
    if (SSL_CTX_set_ex_data(client, kept_index, all) != 1) {
        pthread_mutex_destroy(&all->lock);
        free(all);
        return false;
    }
    SSL_CTX_set_session_cache_mode(client, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
    SSL_CTX_sess_set_new_cb(client, keep);
    return true;
}

/* fuzz_tls.c - the border of records: a client and a server of src/tls, with a relay between them that
 * cuts the stream into pieces of any size, and may change a byte of it. What the server reads is what
 * the client wrote, or the beginning of it.
 *
 *   input: flags, position of the changed byte (2), size of reads, then sizes of pieces and the text */
#include <errno.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "tls/tls.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PIECES = 24, STEPS_MAX = 20000, RELAY_BYTES = 1 << 16 };

static struct tls *both;

/* ---- a certificate ---- */

static void make_files(const char *cert_path, const char *key_path)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *cert = X509_new();
    check(key != NULL && cert != NULL && X509_set_version(cert, 2) == 1);
    check(ASN1_INTEGER_set(X509_get_serialNumber(cert), 1) == 1);
    X509_gmtime_adj(X509_getm_notBefore(cert), -3600);
    X509_gmtime_adj(X509_getm_notAfter(cert), 30 * 86400);
    X509_set_pubkey(cert, key);
    X509_NAME *name = X509_get_subject_name(cert);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)"fuzz", -1, -1, 0);
    X509_set_issuer_name(cert, name);
    X509_EXTENSION *names = X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name, "DNS:localhost");
    check(names != NULL && X509_add_ext(cert, names, -1) == 1);
    X509_EXTENSION_free(names);
    check(X509_sign(cert, key, EVP_sha256()) > 0);
    FILE *file = fopen(cert_path, "we");
    check(file != NULL && PEM_write_X509(file, cert) == 1 && fclose(file) == 0);
    file = fopen(key_path, "we");
    check(file != NULL && PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL) == 1 &&
          fclose(file) == 0);
    X509_free(cert);
    EVP_PKEY_free(key);
}

static void prepare(void)
{
    char folder[] = "/tmp/fuzz-tls-XXXXXX", cert[64], key[64];
    umask(077);
    check(mkdtemp(folder) != NULL);
    snprintf(cert, sizeof cert, "%s/cert.pem", folder);
    snprintf(key, sizeof key, "%s/key.pem", folder);
    make_files(cert, key);
    const struct tls_files files = {
        .cert_file = cert, .key_file = key, .ca_file = cert, .serves = true, .prefix = "tls."};
    struct fault f;
    check(tls_create(&files, &both, &f) == ERR_OK);
    unlink(cert);
    unlink(key);
    rmdir(folder);
}

/* ---- the relay ---- */

struct relay {
    const uint8_t *pieces; /* sizes */
    size_t piece_count, turn;
    bool changes;
    size_t change_at, passed; /* from the client to the server */
};

/* Moves one piece; false: there was none. */
static bool move(struct relay *r, int from, int to, bool is_request)
{
    char bytes[RELAY_BYTES];
    size_t most = r->pieces[r->turn++ % r->piece_count];
    ssize_t got = recv(from, bytes, most == 0 ? sizeof bytes : most, MSG_DONTWAIT);
    if (got <= 0) return false;
    if (is_request && r->changes && r->change_at >= r->passed &&
        r->change_at < r->passed + (size_t)got)
        bytes[r->change_at - r->passed] ^= 0x20;
    if (is_request) r->passed += (size_t)got;
    for (ssize_t at = 0; at < got;) {
        ssize_t sent = send(to, bytes + at, (size_t)(got - at), MSG_NOSIGNAL);
        if (sent < 0) return false; /* it has closed */
        at += sent;
    }
    return true;
}

/* ---- the two ends ---- */

struct end {
    struct tls_session *session;
    int fd;
    enum tls_step step;
};

static bool shake(struct end *e)
{
    struct fault f;
    if (e->step == TLS_WANTS_READ || e->step == TLS_WANTS_WRITE)
        e->step = tls_handshake(e->session, &f);
    return e->step == TLS_DONE;
}

struct run {
    struct end client, server;
    int client_relay, server_relay;
    struct relay relay;
    struct str text;
    size_t written, read, read_most;
    bool is_over;
};

static void write_some(struct run *r)
{
    size_t left = r->text.size - r->written, first = left / 3;
    if (left == 0 || !shake(&r->client)) return;
    const char *from = r->text.bytes + r->written;
    struct iovec pieces[2] = {
        {.iov_base = (void *)(uintptr_t)from, .iov_len = first},
        {.iov_base = (void *)(uintptr_t)(from + first), .iov_len = left - first}};
    ssize_t sent = tls_write_both(r->client.session, pieces);
    check(sent != 0 && (sent <= (ssize_t)left));
    if (sent > 0) r->written += (size_t)sent;
}

static void read_some(struct run *r)
{
    char got[512];
    if (!shake(&r->server)) {
        r->is_over = r->server.step == TLS_FAILED;
        return;
    }
    do {
        ssize_t size = tls_read(r->server.session, got, r->read_most);
        if (size <= 0) {
            r->is_over = size == 0 || errno != EAGAIN;
            return;
        }
        check(r->read + (size_t)size <= r->written);
        check(memcmp(got, r->text.bytes + r->read, (size_t)size) == 0);
        r->read += (size_t)size;
    } while (tls_has_more(r->server.session));
}

static void pair_open(int *ret_end, int *ret_relay)
{
    int pair[2], bytes = 1 << 20;
    check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) == 0);
    for (int i = 0; i < 2; i++) setsockopt(pair[i], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
    *ret_end = pair[0];
    *ret_relay = pair[1];
}

static void run(struct run *r, struct str early)
{
    r->client.session = tls_connect(both, r->client.fd, "localhost");
    r->server.session = tls_accept(both, r->server.fd, early);
    check(r->client.session != NULL && r->server.session != NULL);
    r->client.step = r->server.step = TLS_WANTS_READ;
    for (int i = 0; i < STEPS_MAX && !r->is_over && r->read < r->text.size; i++) {
        (void)shake(&r->client);
        if (r->client.step == TLS_FAILED) break;
        write_some(r);
        bool moved = move(&r->relay, r->client_relay, r->server_relay, true);
        read_some(r);
        moved |= move(&r->relay, r->server_relay, r->client_relay, false);
        if (!moved && r->server.step == TLS_DONE && r->written == r->text.size) i += 16;
    }
    if (!r->relay.changes && early.size == 0) check(r->read == r->text.size);
    tls_end(r->client.session);
    tls_end(r->server.session);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (both == NULL) prepare();
    if (size < 5 || size > 4096) return 0;
    struct run r = {.read_most = data[3] == 0 ? 512 : data[3]};
    r.relay = (struct relay){.changes = (data[0] & 1) != 0,
                             .change_at = (size_t)data[1] << 8 | data[2],
                             .pieces = data + 4,
                             .piece_count = size - 4 < PIECES ? size - 4 : PIECES};
    r.text = str_of((const char *)data + 4, size - 4);
    pair_open(&r.client.fd, &r.client_relay);
    pair_open(&r.server.fd, &r.server_relay);
    /* what was read before the handshake may be anything */
    run(&r, (data[0] & 2) != 0 ? r.text : (struct str){0});
    close(r.client.fd);
    close(r.server.fd);
    close(r.client_relay);
    close(r.server_relay);
    return 0;
}

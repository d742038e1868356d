/* tls.c - the files of a program's TLS: read at the start, and again when they change.
 *
 *   files ── all read ──▶ texts ── contexts_make() ──▶ in use ──▶ sessions
 *     ▲                                 │ refused: logged, shown in /healthz
 *     └── look each second, SIGHUP ◀────┘ what is in use stays
 *
 * A look compares what stat() reports. While a file has changed within the last two seconds, its
 * content is compared as well, because a file system's clock may be too coarse to show a second
 * change. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/file.h"
#include "base/log.h"
#include "base/world.h"
#include "crypto/crypto.h"
#include "tls/context.h"

enum { FILE_BYTES_MAX = 1 << 20, OPTION_BYTES = 40, SETTLED_S = 2 };

struct tls {
    char *paths[TEXT_COUNT]; /* NULL: none */
    char options[TEXT_COUNT][OPTION_BYTES];
    bool serves, insecure_peers;

    /* of the thread that keeps up */
    struct sha256 looks;   /* of what stat() reported at the last look that had settled */
    struct sha256 content; /* that was last tried */

    pthread_mutex_t lock; /* guards what follows */
    struct contexts in_use;
    struct fault refused; /* err ERR_OK: the newest content is in use */
};

static const char *const names[TEXT_COUNT] = {[TEXT_CERT] = "cert_file",
                                              [TEXT_KEY] = "key_file",
                                              [TEXT_CLIENT_CA] = "client_ca_file",
                                              [TEXT_CA] = "ca_file"};

/* -- reading ----------------------------------------------------------------------------- */

/* The same rule as for other secrets (crypto/secret.h). */
static bool is_ours_and_open(const struct stat *s)
{
    return s->st_uid == geteuid() && (s->st_mode & 077) != 0;
}

static enum err text_read(const struct tls *t, int which, struct tls_text *ret, struct fault *f)
{
    *ret = (struct tls_text){.option = t->options[which], .path = t->paths[which]};
    if (ret->path == NULL) return ERR_OK;
    struct stat s;
    /* a FIFO must not stop the program */
    int fd = open(ret->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &s) != 0) {
        int number = errno;
        if (fd >= 0) close(fd);
        return fault_set(f, ERR_NOT_FOUND, "", "%s: %s cannot be opened: %s", ret->option,
                         ret->path, strerror(number));
    }
    enum err err = ERR_OK;
    if (!S_ISREG(s.st_mode) || s.st_size <= 0 || s.st_size > FILE_BYTES_MAX)
        err = fault_set(f, ERR_BAD_VALUE, "", "%s: %s must be a file of 1 byte to 1 MiB",
                        ret->option, ret->path);
    else if (which == TEXT_KEY && is_ours_and_open(&s))
        err =
            fault_set(f, ERR_BAD_VALUE, "",
                      "%s: %s can be read by others (mode %03o): chmod 600 it, and replace the key",
                      ret->option, ret->path, (unsigned)(s.st_mode & 0777));
    size_t capacity = (size_t)(s.st_size > 0 ? s.st_size : 0) + 1;
    if (err == ERR_OK) {
        ret->bytes = malloc(capacity);
        if (ret->bytes == NULL) err = fault_plain(f, ERR_FULL);
    }
    if (err == ERR_OK && !file_read(fd, ret->bytes, capacity, &ret->size))
        err = fault_set(f, ERR_NOT_FOUND, "", "%s: %s cannot be read: %m", ret->option, ret->path);
    close(fd);
    return err;
}

static void texts_free(struct tls_text texts[TEXT_COUNT])
{
    for (int i = 0; i < TEXT_COUNT; i++) {
        if (texts[i].bytes != NULL) memory_wipe(texts[i].bytes, texts[i].size);
        free(texts[i].bytes);
    }
}

static struct sha256 digest_of(const struct tls_text texts[TEXT_COUNT])
{
    struct hasher *h = hasher_create();
    hasher_begin(h);
    for (int i = 0; i < TEXT_COUNT; i++) {
        hasher_add(h, str_of((const char *)&texts[i].size, sizeof texts[i].size));
        if (texts[i].bytes != NULL) hasher_add(h, str_of(texts[i].bytes, texts[i].size));
    }
    struct sha256 digest = hasher_end(h);
    hasher_destroy(h);
    return digest;
}

static bool is_same(struct sha256 a, struct sha256 b) { return memcmp(&a, &b, sizeof a) == 0; }

/* ERR_END: the content is the last one that was tried. */
static enum err load(struct tls *t, bool again, struct contexts *ret, struct fault *f)
{
    struct tls_text texts[TEXT_COUNT] = {0};
    enum err err = ERR_OK;
    for (int i = 0; i < TEXT_COUNT && err == ERR_OK; i++) err = text_read(t, i, &texts[i], f);
    if (err == ERR_OK) {
        struct sha256 content = digest_of(texts);
        if (is_same(content, t->content) && !again)
            err = ERR_END;
        else
            err = contexts_make(texts, t->serves, t->insecure_peers, ret, f);
        t->content = content;
    } else {
        t->content = (struct sha256){{0}}; /* a file that comes back is tried again */
    }
    texts_free(texts);
    return err;
}

/* -- in use ------------------------------------------------------------------------------ */

static enum err take_paths(struct tls *t, const struct tls_files *files, struct fault *f)
{
    const char *const given[TEXT_COUNT] = {[TEXT_CERT] = files->cert_file,
                                           [TEXT_KEY] = files->key_file,
                                           [TEXT_CLIENT_CA] = files->client_ca_file,
                                           [TEXT_CA] = files->ca_file};
    for (int i = 0; i < TEXT_COUNT; i++) {
        snprintf(t->options[i], OPTION_BYTES, "%s%s", files->prefix, names[i]);
        for (char *c = t->options[i]; files->prefix[0] == '-' && *c != '\0'; c++)
            if (*c == '_') *c = '-'; /* as flags are written */
        if (given[i] == NULL || given[i][0] == '\0') continue;
        t->paths[i] = strdup(given[i]);
        if (t->paths[i] == NULL) return fault_plain(f, ERR_FULL);
    }
    const char *cert = t->options[TEXT_CERT], *key = t->options[TEXT_KEY];
    bool has_cert = t->paths[TEXT_CERT] != NULL, has_key = t->paths[TEXT_KEY] != NULL;
    if (has_cert != has_key)
        return fault_set(f, ERR_BAD_VALUE, "", "%s: %s has to be set as well",
                         has_cert ? cert : key, has_cert ? key : cert);
    if (t->serves && !has_cert)
        return fault_set(f, ERR_BAD_VALUE, "", "listen.tls: needs %s and %s", cert, key);
    return ERR_OK;
}

enum err tls_create(const struct tls_files *files, struct tls **ret, struct fault *f)
{
    struct tls *t = calloc(1, sizeof *t);
    if (t == NULL) return fault_plain(f, ERR_FULL);
    pthread_mutex_init(&t->lock, NULL);
    t->serves = files->serves;
    t->insecure_peers = files->insecure_peers;
    enum err err = take_paths(t, files, f);
    if (err == ERR_OK) err = load(t, true, &t->in_use, f);
    if (err != ERR_OK)
        tls_destroy(t);
    else
        *ret = t;
    return err;
}

void tls_destroy(struct tls *t)
{
    if (t == NULL) return;
    contexts_free(&t->in_use);
    for (int i = 0; i < TEXT_COUNT; i++) free(t->paths[i]);
    pthread_mutex_destroy(&t->lock);
    free(t);
}

SSL *tls_ssl(struct tls *t, bool serves)
{
    pthread_mutex_lock(&t->lock);
    check(!serves || t->in_use.server != NULL);
    SSL *ssl = SSL_new(serves ? t->in_use.server : t->in_use.client); /* keeps the context alive */
    pthread_mutex_unlock(&t->lock);
    return ssl;
}

/* -- keeping up -------------------------------------------------------------------------- */

/* What stat() reports of all files; *ret_settled: none has changed just now. */
static struct sha256 look_at(const struct tls *t, bool *ret_settled)
{
    struct {
        dev_t device;
        ino_t inode;
        off_t size;
        struct timespec modified, changed;
    } seen[TEXT_COUNT];
    memset(seen, 0, sizeof seen);
    time_t now_s = (time_t)(world_now_ms() / 1000);
    *ret_settled = true;
    for (int i = 0; i < TEXT_COUNT; i++) {
        struct stat s;
        if (t->paths[i] == NULL || stat(t->paths[i], &s) != 0) continue;
        seen[i].device = s.st_dev;
        seen[i].inode = s.st_ino;
        seen[i].size = s.st_size;
        seen[i].modified = s.st_mtim;
        seen[i].changed = s.st_ctim;
        if (s.st_ctim.tv_sec + SETTLED_S >= now_s) *ret_settled = false;
    }
    return sha256_once(str_of((const char *)seen, sizeof seen));
}

static void replace(struct tls *t, const struct contexts *next)
{
    pthread_mutex_lock(&t->lock);
    struct contexts before = t->in_use;
    t->in_use = *next;
    t->refused = (struct fault){.err = ERR_OK};
    pthread_mutex_unlock(&t->lock);
    contexts_free(&before);
    log_line(LOG_INFO, "tls_reloaded", "text",
             "the files of TLS were read again; new connections use them", NULL);
}

static void refuse(struct tls *t, const struct fault *f)
{
    pthread_mutex_lock(&t->lock);
    bool is_news = t->refused.err != f->err || strcmp(t->refused.text, f->text) != 0;
    t->refused = *f;
    pthread_mutex_unlock(&t->lock);
    if (is_news)
        log_line(LOG_ERROR, "tls_refused", "why", f->text, "text",
                 "the earlier certificates stay in use", NULL);
}

void tls_keep_up(struct tls *t, bool again)
{
    if (t == NULL) return;
    bool is_settled;
    struct sha256 looks = look_at(t, &is_settled);
    if (!again && is_same(looks, t->looks)) return;
    struct contexts next;
    struct fault f;
    enum err err = load(t, again, &next, &f);
    if (err == ERR_OK)
        replace(t, &next);
    else if (err != ERR_END)
        refuse(t, &f);
    t->looks = is_settled ? looks : (struct sha256){{0}};
}

bool tls_is_well(struct tls *t, uint64_t now_ms, char to[TLS_TROUBLE_TEXT])
{
    pthread_mutex_lock(&t->lock);
    struct fault refused = t->refused;
    uint64_t expires_ms = t->in_use.expires_ms;
    pthread_mutex_unlock(&t->lock);
    const uint64_t soon_ms = (uint64_t)TLS_EXPIRES_SOON_DAYS * 86400000;
    if (refused.err != ERR_OK)
        snprintf(to, TLS_TROUBLE_TEXT, "the earlier certificates stay in use: %s", refused.text);
    else if (expires_ms != 0 && expires_ms <= now_ms)
        snprintf(to, TLS_TROUBLE_TEXT, "the certificate in %s has expired: clients refuse it",
                 t->options[TEXT_CERT]);
    else if (expires_ms != 0 && expires_ms - now_ms < soon_ms)
        snprintf(to, TLS_TROUBLE_TEXT, "the certificate in %s expires in less than %d days",
                 t->options[TEXT_CERT], TLS_EXPIRES_SOON_DAYS);
    else if (t->insecure_peers)
        snprintf(to, TLS_TROUBLE_TEXT,
                 "tls.insecure_peers is set: the certificates of peers are not verified");
    else
        return true;
    return false;
}

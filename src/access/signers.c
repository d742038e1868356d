/* signers.c - signing keys: files of a directory, read into an immutable set.
 *
 *   DIR/signer-0000000007.key:   writ-signer 1
 *                                active_ms 1795166400000
 *                                secret <64 lowercase hex digits>
 *                                sha256 <of all lines before; 64 lowercase hex digits>
 *
 *   made --active_ms--> signing --a younger one's active_ms--> verifying --overlap--> gone
 *
 * The number is in the file's name and never comes again: the newest file always stays. A file is
 * written under another name, synced and renamed, so that a crash leaves a whole pair or none. What
 * is not ours to judge is not passed over: a damaged file, or one that others may read, ends the
 * start with its name, because going on would quietly refuse the tokens that it signed. That is what
 * the last line is for: any 32 bytes are a secret. Files of earlier versions have none, and are taken
 * as they are. */
#include "access/signers.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/file.h"
#include "json/json.h"

enum { NAME_TEXT = 21, FILE_BYTES_MAX = 256 }; /* "signer-0000000007.key" */

/* ---- one pair ---- */

void signer_init(struct signer *s, uint32_t number, uint64_t active_ms,
                 const uint8_t secret[ED25519_KEY_BYTES])
{
    *s = (struct signer){
        .number = number, .active_ms = active_ms, .pair = ed25519_from_secret(secret)};
    uint8_t public[ED25519_KEY_BYTES];
    ed25519_public(s->pair, public);
    struct buf x = buf_over(s->public_text, sizeof s->public_text);
    base64url_put(&x, public, sizeof public);

    /* RFC 7638: the required members, in order, without blanks. */
    char bytes[160];
    struct buf b = buf_over(bytes, sizeof bytes);
    buf_put_literal(&b, "{\"crv\":\"Ed25519\",\"kty\":\"OKP\",\"x\":\"");
    buf_put(&b, buf_view(&x));
    buf_put_literal(&b, "\"}");
    struct sha256 thumbprint = sha256_once(buf_view(&b));
    struct buf kid = buf_over(s->kid, sizeof s->kid);
    base64url_put(&kid, thumbprint.bytes, sizeof thumbprint.bytes);

    buf_clear(&b);
    buf_put_literal(&b, "{\"alg\":\"EdDSA\",\"kid\":\"");
    buf_put(&b, buf_view(&kid));
    buf_put_literal(&b, "\",\"typ\":\"at+jwt\"}");
    struct buf header = buf_over(s->header, sizeof s->header);
    base64url_put(&header, b.bytes, b.size);
    s->header_size = header.size;
    check(!x.overflow && !b.overflow && !kid.overflow && !header.overflow);
    check(x.size == SIGNER_KID_TEXT && kid.size == SIGNER_KID_TEXT);
}

void signer_fini(struct signer *s)
{
    ed25519_destroy(s->pair);
    s->pair = NULL;
}

/* ---- the set ---- */

void signers_destroy(struct signers *s)
{
    if (s == NULL) return;
    for (size_t i = 0; i < s->count; i++) signer_fini(&s->list[i]);
    free(s);
}

uint32_t signers_current(const struct signers *s, uint64_t now_ms)
{
    size_t at = s->count - 1;
    while (at > 0 && s->list[at].active_ms > now_ms) at--;
    return s->list[at].number;
}

bool signers_have(const struct signers *s, uint32_t number)
{
    for (size_t i = 0; i < s->count; i++)
        if (s->list[i].number == number) return true;
    return false;
}

uint64_t signers_newest_ms(const struct signers *s) { return s->list[s->count - 1].active_ms; }

/* When the next one took over, which is not before it was itself in force, whatever the clock did
 * between two starts; UINT64_MAX: none does. */
static uint64_t replaced_ms(const struct signers *s, size_t at)
{
    if (at + 1 == s->count) return UINT64_MAX;
    uint64_t own = s->list[at].active_ms, next = s->list[at + 1].active_ms;
    return next > own ? next : own;
}

static bool is_over(const struct signers *s, size_t at, uint64_t now_ms, uint64_t overlap_ms)
{
    uint64_t since = replaced_ms(s, at);
    return now_ms >= since && now_ms - since >= overlap_ms;
}

bool signers_overdue(const struct signers *s, uint64_t now_ms, uint64_t overlap_ms)
{
    for (size_t i = 0; i < s->count; i++)
        if (is_over(s, i, now_ms, overlap_ms)) return true;
    return false;
}

void signers_put_jwks(struct buf *out, const struct signers *s)
{
    buf_put_literal(out, "{\"keys\":[");
    for (size_t i = s->count; i-- > 0;) { /* the newest first: some verifiers look at one only */
        const struct signer *k = &s->list[i];
        buf_put_literal(out, "{\"alg\":\"EdDSA\",\"crv\":\"Ed25519\",\"kid\":");
        json_put_plain(out, str_of(k->kid, sizeof k->kid));
        buf_put_literal(out, ",\"kty\":\"OKP\",\"use\":\"sig\",\"x\":");
        json_put_plain(out, str_of(k->public_text, sizeof k->public_text));
        buf_put(out, i > 0 ? STR("},") : STR("}"));
    }
    buf_put_literal(out, "]}");
}

/* ---- files ---- */

static enum err file_fault(struct fault *f, const char *what, const char *path)
{
    int number = errno;
    enum err err = err_from_errno(number);
    return fault_set(f, err == ERR_NOT_FOUND ? ERR_IO : err, "", "signers: cannot %s %s: %s", what,
                     path, strerror(number));
}

static enum err damaged(struct fault *f, const char *path, const char *why)
{
    return fault_set(f, ERR_BAD_VALUE, "", "signers: %s %s", path, why);
}

static void path_write(char to[4096], const char *directory, uint32_t number, const char *suffix)
{
    check(snprintf(to, 4096, "%s/signer-%010lu.key%s", directory, (unsigned long)number, suffix) <
          4096);
}

static bool name_read(struct str name, uint32_t *ret)
{
    uint64_t number;
    if (name.size != NAME_TEXT || !str_starts(name, STR("signer-"))) return false;
    if (!str_equal(str_skip(name, NAME_TEXT - 4), STR(".key"))) return false;
    if (!str_to_u64(str_of(name.bytes + 7, 10), &number) || number > UINT32_MAX) return false;
    *ret = (uint32_t)number;
    return true;
}

/* "word value\n" off the front. */
static bool line_read(struct str *rest, struct str word, struct str *ret)
{
    struct str line;
    if (!str_split(rest, '\n', &line) || str_is_absent(*rest)) return false;
    if (line.size <= word.size || !str_starts(line, word) || line.bytes[word.size] != ' ')
        return false;
    *ret = str_skip(line, word.size + 1);
    return true;
}

/* What is left of the text says what all of it before that is, or there is nothing left. */
static bool sum_holds(struct str text, struct str rest)
{
    struct str sum;
    struct sha256 told;
    if (rest.size == 0) return true;
    struct sha256 is = sha256_once(str_of(text.bytes, text.size - rest.size));
    return line_read(&rest, STR("sha256"), &sum) && rest.size == 0 && sha256_read_hex(sum, &told) &&
           memcmp(&told, &is, sizeof is) == 0;
}

static bool text_read(struct str text, uint64_t *ret_active_ms,
                      uint8_t ret_secret[ED25519_KEY_BYTES])
{
    struct str version, active, secret, all = text;
    struct sha256 bytes; /* as many bytes, and the same digits */
    if (!line_read(&text, STR("writ-signer"), &version) || !str_equal(version, STR("1")))
        return false;
    if (!line_read(&text, STR("active_ms"), &active) || !str_to_u64(active, ret_active_ms))
        return false;
    if (!line_read(&text, STR("secret"), &secret) || !sha256_read_hex(secret, &bytes)) return false;
    if (!sum_holds(all, text)) return false;
    memcpy(ret_secret, bytes.bytes, ED25519_KEY_BYTES);
    memory_wipe(&bytes, sizeof bytes);
    return true;
}

static enum err signer_read(const char *directory, uint32_t number, struct signer *ret,
                            struct fault *f)
{
    char path[4096], text[FILE_BYTES_MAX];
    path_write(path, directory, number, "");
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) return file_fault(f, "open", path);
    struct stat s;
    size_t size;
    bool ok = fstat(fd, &s) == 0 && file_read(fd, text, sizeof text, &size);
    enum err err = ok ? ERR_OK : file_fault(f, "read", path);
    close(fd);
    if (err != ERR_OK) return err;
    uint64_t active_ms;
    uint8_t secret[ED25519_KEY_BYTES];
    if ((s.st_mode & 077) != 0)
        err =
            damaged(f, path,
                    "is open to others: chmod 600 it, or remove it and every token that it signed");
    else if (!text_read(str_of(text, size), &active_ms, secret))
        err =
            damaged(f, path, "is damaged: restore it, or remove it and every token that it signed");
    else
        signer_init(ret, number, active_ms, secret);
    memory_wipe(text, sizeof text);
    memory_wipe(secret, sizeof secret);
    return err;
}

static enum err signer_make(const char *directory, uint32_t number, uint64_t active_ms,
                            struct fault *f)
{
    char path[4096], fresh[4096], text[FILE_BYTES_MAX];
    uint8_t secret[ED25519_KEY_BYTES];
    path_write(path, directory, number, "");
    path_write(fresh, directory, number, ".new");
    world_random(secret, sizeof secret);
    struct buf b = buf_over(text, sizeof text);
    buf_put_literal(&b, "writ-signer 1\nactive_ms ");
    buf_put_u64(&b, active_ms);
    buf_put_literal(&b, "\nsecret ");
    buf_put_hex(&b, secret, sizeof secret);
    buf_put_byte(&b, '\n');
    struct sha256 sum = sha256_once(buf_view(&b));
    buf_put_literal(&b, "sha256 ");
    buf_put_hex(&b, sum.bytes, sizeof sum.bytes);
    buf_put_byte(&b, '\n');
    check(!b.overflow);
    unlink(fresh); /* of a crash before the rename */
    enum err err = file_make(fresh, buf_view(&b)) ? ERR_OK : file_fault(f, "create", fresh);
    if (err == ERR_OK && rename(fresh, path) != 0) err = file_fault(f, "create", path);
    if (err == ERR_OK && !folder_sync(directory)) err = file_fault(f, "sync", directory);
    memory_wipe(text, sizeof text);
    memory_wipe(secret, sizeof secret);
    return err;
}

/* ---- the directory ---- */

static int by_number(const void *a, const void *b)
{
    const uint32_t *one = a, *other = b;
    return *one < *other ? -1 : *one > *other;
}

/* The numbers of its files, in order. */
static enum err numbers_read(const char *directory, uint32_t ret[SIGNERS_MAX], size_t *ret_count,
                             struct fault *f)
{
    DIR *d = opendir(directory);
    if (d == NULL) return file_fault(f, "open", directory);
    size_t count = 0;
    enum err err = ERR_OK;
    for (struct dirent *entry = readdir(d); entry != NULL && err == ERR_OK; entry = readdir(d)) {
        uint32_t number;
        if (!name_read(str_from(entry->d_name), &number)) continue;
        if (count == SIGNERS_MAX)
            err = fault_set(f, ERR_FULL, "", "signers: %s holds more than %d", directory,
                            SIGNERS_MAX);
        else
            ret[count++] = number;
    }
    closedir(d);
    qsort(ret, count, sizeof *ret, by_number);
    *ret_count = count;
    return err;
}

static enum err directory_read(const char *directory, struct signers **ret, struct fault *f)
{
    uint32_t numbers[SIGNERS_MAX];
    size_t count;
    enum err err = numbers_read(directory, numbers, &count, f);
    if (err != ERR_OK) return err;
    struct signers *s = calloc(1, sizeof *s);
    check(s != NULL);
    for (; s->count < count && err == ERR_OK; s->count += err == ERR_OK)
        err = signer_read(directory, numbers[s->count], &s->list[s->count], f);
    if (err == ERR_OK)
        *ret = s;
    else
        signers_destroy(s);
    return err;
}

/* Those whose time is over go, oldest first. */
static void drop_old(const char *directory, struct signers *s, uint64_t now_ms, uint64_t overlap_ms)
{
    size_t kept = 0, over = 0;
    for (; over < s->count && is_over(s, over, now_ms, overlap_ms); over++) {
        char path[4096];
        path_write(path, directory, s->list[over].number, "");
        unlink(path); /* one that stays is found again at the next start */
        signer_fini(&s->list[over]);
    }
    for (size_t i = over; i < s->count; i++) s->list[kept++] = s->list[i];
    s->count = kept;
}

/* With one more pair if `active_ms` is not 0, or if there is none. */
static enum err reopen(const char *directory, uint64_t now_ms, uint64_t active_ms,
                       uint64_t overlap_ms, struct signers **ret, struct fault *f)
{
    struct signers *s;
    if (mkdir(directory, 0700) != 0 && errno != EEXIST) return file_fault(f, "make", directory);
    enum err err = directory_read(directory, &s, f);
    if (err != ERR_OK) return err;
    if (s->count == 0 && active_ms == 0) active_ms = now_ms;
    if (active_ms != 0) {
        uint32_t number = s->count == 0 ? 1 : s->list[s->count - 1].number + 1;
        signers_destroy(s);
        err = signer_make(directory, number, active_ms, f);
        if (err == ERR_OK) err = directory_read(directory, &s, f);
        if (err != ERR_OK) return err;
    }
    drop_old(directory, s, now_ms, overlap_ms);
    *ret = s;
    return ERR_OK;
}

static enum err folder_of_sync(const char *path, struct fault *f)
{
    char folder[SIGNERS_PATH_TEXT];
    snprintf(folder, sizeof folder, "%s", path);
    char *last = strrchr(folder, '/');
    check(last != NULL);
    *last = '\0';
    return folder_sync(folder) ? ERR_OK : file_fault(f, "sync", folder);
}

enum err signers_set_aside(const char *directory, uint64_t now_ms, char *ret_where, struct fault *f)
{
    uint32_t numbers[SIGNERS_MAX];
    size_t count;
    ret_where[0] = '\0';
    if (access(directory, F_OK) != 0 && errno == ENOENT) return ERR_OK;
    enum err err = numbers_read(directory, numbers, &count, f);
    if (err != ERR_OK || count == 0) return err;
    char where[SIGNERS_PATH_TEXT];
    check(snprintf(where, sizeof where, "%s.%llu", directory, (unsigned long long)now_ms) <
          SIGNERS_PATH_TEXT);
    if (rename(directory, where) != 0) return file_fault(f, "set aside", directory);
    err = folder_of_sync(directory, f);
    if (err == ERR_OK) memcpy(ret_where, where, sizeof where);
    return err;
}

enum err signers_open(const char *directory, uint64_t now_ms, uint64_t overlap_ms,
                      struct signers **ret, struct fault *f)
{
    return reopen(directory, now_ms, 0, overlap_ms, ret, f);
}

enum err signers_rotate(const char *directory, uint64_t now_ms, uint64_t active_ms,
                        uint64_t overlap_ms, struct signers **ret, struct fault *f)
{
    return reopen(directory, now_ms, active_ms, overlap_ms, ret, f);
}

/* signers.c - signing keys: an immutable set of them; and the files that earlier versions kept.
 *
 *   DIR/signer-0000000007.key:   writ-signer 1
 *                                active_ms 1795166400000
 *                                secret <64 lowercase hex digits>
 *                                sha256 <of all lines before; 64 lowercase hex digits>
 *
 *   made --active_ms--> signing --a younger one's active_ms--> verifying --overlap--> gone
 *
 * A damaged file, or one that others may read, ends the start with an error that names it.
 * Ignoring it would refuse the tokens that it signed without a notice. The last line of a file
 * shows damage, since any 32 bytes are a valid secret. The oldest files have no such line and
 * are read without it. */
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

uint32_t signers_least(const struct signers *s) { return s->list[0].number; }

struct str signers_kid(const struct signers *s, uint32_t number)
{
    for (size_t i = 0; i < s->count; i++)
        if (s->list[i].number == number) return str_of(s->list[i].kid, SIGNER_KID_TEXT);
    return (struct str){0};
}

struct signers *signers_create(const struct signer_secret *list, size_t count)
{
    check(count > 0 && count <= SIGNERS_MAX);
    struct signers *s = calloc(1, sizeof *s);
    check(s != NULL);
    for (; s->count < count; s->count++)
        signer_init(&s->list[s->count], list[s->count].number, list[s->count].active_ms,
                    list[s->count].bytes);
    return s;
}

/* The time at which the next pair took over, but not before that pair's own start, whatever the
 * clock did between two starts; UINT64_MAX: no pair follows. */
static uint64_t replaced_ms(const struct signer_secret *list, size_t count, size_t at)
{
    if (at + 1 == count) return UINT64_MAX;
    uint64_t own = list[at].active_ms, next = list[at + 1].active_ms;
    return next > own ? next : own;
}

size_t signers_over(const struct signer_secret *list, size_t count, uint64_t now_ms,
                    uint64_t overlap_ms)
{
    size_t over = 0;
    for (; over < count; over++) {
        uint64_t since = replaced_ms(list, count, over);
        if (now_ms < since || now_ms - since < overlap_ms) break;
    }
    return over;
}

void signers_put_jwks(struct buf *out, const struct signers *s)
{
    buf_put_literal(out, "{\"keys\":[");
    for (size_t i = s->count; i-- > 0;) { /* the newest first: some verifiers use only one */
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

static void path_write(char to[4096], const char *directory, uint32_t number)
{
    check(snprintf(to, 4096, "%s/signer-%010lu.key", directory, (unsigned long)number) < 4096);
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

/* Takes "word value\n" off the front. */
static bool line_read(struct str *rest, struct str word, struct str *ret)
{
    struct str line;
    if (!str_split(rest, '\n', &line) || str_is_absent(*rest)) return false;
    if (line.size <= word.size || !str_starts(line, word) || line.bytes[word.size] != ' ')
        return false;
    *ret = str_skip(line, word.size + 1);
    return true;
}

/* The rest of the text is the digest of all lines before it, or there is no rest. */
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
    struct sha256 bytes; /* equal size, and the same digits */
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

static enum err secret_read(const char *directory, uint32_t number, struct signer_secret *ret,
                            struct fault *f)
{
    char path[4096], text[FILE_BYTES_MAX];
    path_write(path, directory, number);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) return file_fault(f, "open", path);
    struct stat s;
    size_t size;
    bool ok = fstat(fd, &s) == 0 && file_read(fd, text, sizeof text, &size);
    enum err err = ok ? ERR_OK : file_fault(f, "read", path);
    close(fd);
    if (err != ERR_OK) return err;
    ret->number = number;
    if ((s.st_mode & 077) != 0)
        err =
            damaged(f, path,
                    "is open to others: chmod 600 it, or remove it and every token that it signed");
    else if (!text_read(str_of(text, size), &ret->active_ms, ret->bytes))
        err =
            damaged(f, path, "is damaged: restore it, or remove it and every token that it signed");
    memory_wipe(text, sizeof text);
    return err;
}

/* ---- the directory ---- */

static int by_number(const void *a, const void *b)
{
    const uint32_t *one = a, *other = b;
    return *one < *other ? -1 : *one > *other;
}

/* The numbers of its files, in order. */
static enum err numbers_read(const char *directory, uint32_t ret[SIGNER_FILES_MAX],
                             size_t *ret_count, struct fault *f)
{
    DIR *d = opendir(directory);
    if (d == NULL) return file_fault(f, "open", directory);
    size_t count = 0;
    enum err err = ERR_OK;
    for (struct dirent *entry = readdir(d); entry != NULL && err == ERR_OK; entry = readdir(d)) {
        uint32_t number;
        if (!name_read(str_from(entry->d_name), &number)) continue;
        if (count == SIGNER_FILES_MAX)
            err = fault_set(f, ERR_FULL, "", "signers: %s holds more than %d", directory,
                            SIGNER_FILES_MAX);
        else
            ret[count++] = number;
    }
    closedir(d);
    qsort(ret, count, sizeof *ret, by_number);
    *ret_count = count;
    return err;
}

enum err signer_files_read(const char *directory, struct signer_secret ret[SIGNER_FILES_MAX],
                           size_t *ret_count, struct fault *f)
{
    uint32_t numbers[SIGNER_FILES_MAX];
    size_t count;
    *ret_count = 0;
    if (access(directory, F_OK) != 0 && errno == ENOENT) return ERR_OK;
    enum err err = numbers_read(directory, numbers, &count, f);
    for (size_t i = 0; err == ERR_OK && i < count; i++)
        err = secret_read(directory, numbers[i], &ret[i], f);
    if (err == ERR_OK) *ret_count = count;
    return err;
}

void signer_file_remove(const char *directory, uint32_t number)
{
    char path[4096];
    path_write(path, directory, number);
    /* a file that stays is found again at the next start, and has expired then, too */
    unlink(path);
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
    uint32_t numbers[SIGNER_FILES_MAX];
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

/* credential.c - the text that a client shows, and the pepper that makes its MAC useless to a thief
 * of the database.
 *
 *   wk_ 26 digits of id _ 43 characters of secret _ 6 hex digits of CRC
 *   0   3               29 30                     73 74              80
 *
 * The secret is 32 random bytes; the CRC only distinguishes a typing mistake from a wrong key,
 * before any lookup. */
#include "access/key.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/file.h"
#include "base/log.h"
#include "base/world.h"

enum {
    AT_ID = 3,
    AT_SECRET = AT_ID + ID_DIGITS + 1,
    SECRET_BYTES = 32,
    SECRET_TEXT = 43,
    AT_CRC = AT_SECRET + SECRET_TEXT + 1,
    CRC_TEXT = 6
};
_Static_assert(AT_CRC + CRC_TEXT == CREDENTIAL_TEXT, "the layout above");

static void crc_write(const char *credential, char to[CRC_TEXT])
{
    static const char hex[] = "0123456789abcdef";
    uint32_t crc = crc32c(0, credential, AT_CRC) & 0xffffff;
    for (int i = CRC_TEXT - 1; i >= 0; i--, crc >>= 4) to[i] = hex[crc & 15];
}

void credential_make(struct id id, char to[CREDENTIAL_TEXT])
{
    uint8_t secret[SECRET_BYTES];
    world_random(secret, sizeof secret);
    memcpy(to, "wk_", 3);
    id_write_digits(id, to + AT_ID);
    to[AT_SECRET - 1] = '_';
    struct buf b = buf_over(to + AT_SECRET, SECRET_TEXT);
    base64url_put(&b, secret, sizeof secret);
    check(b.size == SECRET_TEXT && !b.overflow);
    to[AT_CRC - 1] = '_';
    crc_write(to, to + AT_CRC);
    memory_wipe(secret, sizeof secret);
}

bool credential_read(struct str text, struct id *ret_id)
{
    if (text.size != CREDENTIAL_TEXT || memcmp(text.bytes, "wk_", 3) != 0) return false;
    if (text.bytes[AT_SECRET - 1] != '_' || text.bytes[AT_CRC - 1] != '_') return false;
    char crc[CRC_TEXT];
    crc_write(text.bytes, crc);
    if (memcmp(crc, text.bytes + AT_CRC, CRC_TEXT) != 0) return false;
    uint8_t secret[SECRET_BYTES + 2];
    size_t size;
    bool good = base64url_read(str_of(text.bytes + AT_SECRET, SECRET_TEXT), secret, &size) &&
                size == SECRET_BYTES;
    memory_wipe(secret, sizeof secret);
    return good && id_read_digits(str_of(text.bytes + AT_ID, ID_DIGITS), ret_id);
}

struct sha256 credential_mac(const struct pepper *p, struct str credential)
{
    return hmac_once(str_of((const char *)p->bytes, sizeof p->bytes), credential);
}

struct sha256 pepper_derive(const struct pepper *p, struct str label)
{
    return hkdf_once(str_of((const char *)p->bytes, sizeof p->bytes), (struct str){0}, label);
}

uint32_t pepper_fingerprint(const struct pepper *p)
{
    uint32_t mark;
    struct sha256 mac =
        hmac_once(str_of((const char *)p->bytes, sizeof p->bytes), STR("the mark of this pepper"));
    memcpy(&mark, mac.bytes, sizeof mark);
    return mark == 0 ? 1 : mark;
}

/* ---- the pepper file ---- */

enum { PEPPER_TEXT = SHA256_HEX };

static enum err file_fault(struct fault *f, const char *what, const char *path)
{
    int number = errno;
    return fault_set(f, err_from_errno(number), "", "%s %s: %s", what, path, strerror(number));
}

enum err pepper_read(const char *path, struct pepper *ret, struct fault *f)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return file_fault(f, "pepper_file: cannot open", path);
    struct stat s;
    char text[PEPPER_TEXT + 2];
    size_t size;
    bool ok = fstat(fd, &s) == 0 && file_read(fd, text, sizeof text, &size);
    enum err err = ok ? ERR_OK : file_fault(f, "pepper_file: cannot read", path);
    close(fd);
    if (err != ERR_OK) return err;
    if ((s.st_mode & 077) != 0)
        return fault_set(f, ERR_BAD_VALUE, "",
                         "pepper_file: %s is open to others (mode %03o): chmod 600 it, and treat "
                         "its keys as known to others",
                         path, (unsigned)s.st_mode & 0777);
    if (size == PEPPER_TEXT + 1 && text[PEPPER_TEXT] == '\n') size = PEPPER_TEXT;
    struct sha256 bytes; /* equal size, and the same digits */
    if (size != PEPPER_TEXT || !sha256_read_hex(str_of(text, PEPPER_TEXT), &bytes))
        return fault_set(f, ERR_BAD_VALUE, "", "pepper_file: %s must hold 64 lowercase hex digits",
                         path);
    memcpy(ret->bytes, bytes.bytes, sizeof ret->bytes);
    memory_wipe(text, sizeof text);
    memory_wipe(&bytes, sizeof bytes);
    return ERR_OK;
}

static enum err directory_sync(const char *path, struct fault *f)
{
    const char *slash = strrchr(path, '/');
    char *directory = slash == NULL   ? strdup(".")
                      : slash == path ? strdup("/")
                                      : strndup(path, (size_t)(slash - path));
    check(directory != NULL);
    enum err err =
        folder_sync(directory) ? ERR_OK : file_fault(f, "pepper_file: cannot sync", directory);
    free(directory);
    return err;
}

enum err pepper_make(const char *path, struct fault *f)
{
    if (access(path, F_OK) == 0) return ERR_OK;
    if (errno != ENOENT) return file_fault(f, "pepper_file: cannot read the status of", path);
    struct pepper pepper;
    world_random(pepper.bytes, sizeof pepper.bytes);
    char text[PEPPER_TEXT + 1];
    struct buf b = buf_over(text, sizeof text);
    buf_put_hex(&b, pepper.bytes, sizeof pepper.bytes);
    buf_put_byte(&b, '\n');

    /* The file is written under a temporary name first and then linked. So two programs that
     * start at once agree on one pepper, and neither ever reads half of it. */
    uint64_t own;
    world_random(&own, sizeof own);
    char *fresh = NULL;
    check(asprintf(&fresh, "%s.%016llx", path, (unsigned long long)own) > 0);
    enum err err = file_make(fresh, buf_view(&b))
                       ? ERR_OK
                       : file_fault(f, "pepper_file: cannot create", fresh);
    if (err == ERR_OK && link(fresh, path) != 0 && errno != EEXIST)
        err = file_fault(f, "pepper_file: cannot make the hard link", path);
    unlink(fresh);
    free(fresh);
    memory_wipe(text, sizeof text);
    memory_wipe(&pepper, sizeof pepper);
    return err != ERR_OK ? err : directory_sync(path, f);
}

enum err pepper_read_or_make(const char *path, struct pepper *ret, struct fault *f)
{
    enum err err = pepper_read(path, ret, f);
    if (err != ERR_NOT_FOUND) return err;
    err = pepper_make(path, f);
    if (err != ERR_OK) return err;
    log_text(
        LOG_WARNING, "pepper_made",
        "%s was not there and is new: keys made under another pepper are refused. If there was one, put "
        "it back and start again",
        path);
    return pepper_read(path, ret, f);
}

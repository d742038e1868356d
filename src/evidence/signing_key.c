#include "evidence/signing_key.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "base/file.h"
#include "crypto/base64.h"
#include "crypto/secret.h"

enum { KEY_HEX = 2 * ED25519_KEY_BYTES, PUBLIC_TEXT = 44 };

static enum err cannot(const char *what, const char *path, struct fault *f)
{
    return fault_set(f, ERR_IO, "data", "data: %s cannot be %s: %m", path, what);
}

static enum err make(const char *path, const char *data, struct fault *f)
{
    struct sha256 secret;
    char text[KEY_HEX + 1];
    crypto_random(secret.bytes, sizeof secret.bytes);
    sha256_write_hex(secret, text);
    text[KEY_HEX] = '\n';
    bool made = file_make(path, str_of(text, sizeof text)) && folder_sync(data);
    memory_wipe(&secret, sizeof secret);
    memory_wipe(text, sizeof text);
    return made ? ERR_OK : cannot("written", path, f);
}

static enum err key_load(const char *path, struct ed25519 **ret, struct fault *f)
{
    char text[KEY_HEX + 3];
    size_t size;
    struct sha256 secret;
    enum err err = secret_read("data", path, text, sizeof text, &size, f);
    if (err != ERR_OK) return err;
    bool fine = sha256_read_hex(str_of(text, size), &secret);
    if (fine) *ret = ed25519_from_secret(secret.bytes);
    memory_wipe(text, sizeof text);
    memory_wipe(&secret, sizeof secret);
    return fine ? ERR_OK
                : fault_set(f, ERR_BAD_VALUE, "data", "data: %s must hold %d hex digits", path,
                            KEY_HEX);
}

static enum err put_public(const char *data, const char *name, const struct ed25519 *key,
                           struct fault *f)
{
    char path[PATH_MAX], text[PUBLIC_TEXT + 2];
    uint8_t bytes[ED25519_KEY_BYTES];
    struct buf b = buf_over(text, sizeof text);
    snprintf(path, sizeof path, "%s/%s.pub", data, name);
    ed25519_public(key, bytes);
    base64_put(&b, str_of((const char *)bytes, sizeof bytes), 0);
    buf_put_byte(&b, '\n');
    if (unlink(path) != 0 && errno != ENOENT) return cannot("replaced", path, f);
    return file_make(path, buf_view(&b)) ? ERR_OK : cannot("written", path, f);
}

enum err signing_key_open(const char *data, const char *name, struct ed25519 **ret, struct fault *f)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s.key", data, name);
    enum err err = access(path, F_OK) == 0 || errno != ENOENT ? ERR_OK : make(path, data, f);
    if (err == ERR_OK) err = key_load(path, ret, f);
    if (err != ERR_OK) return err;
    err = put_public(data, name, *ret, f);
    if (err == ERR_OK) return ERR_OK;
    ed25519_destroy(*ret);
    *ret = NULL;
    return err;
}

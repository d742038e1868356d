#include "engine/control/own_key.h"

#include <stdio.h>

#include "access/key.h"
#include "base/check.h"
#include "crypto/crypto.h"
#include "crypto/secret.h"

_Static_assert((int)OWN_KEY_TEXT > (int)CREDENTIAL_TEXT + 8, "\"Bearer \" and the key");

enum err own_key_read(const struct config *c, char to[OWN_KEY_TEXT], struct fault *f)
{
    const char *path = c->platform_key_file;
    if (path[0] == '\0')
        return fault_set(
            f, ERR_BAD_VALUE, "",
            "platform.key_file: is needed beside platform.url (an API key with the role ingest)");
    char text[2 * CREDENTIAL_TEXT];
    size_t size;
    enum err err = secret_read("platform.key_file", path, text, sizeof text, &size, f);
    if (err != ERR_OK) return err;
    struct id id;
    bool ok = credential_read(str_of(text, size), &id);
    if (ok) snprintf(to, OWN_KEY_TEXT, "Bearer %.*s", CREDENTIAL_TEXT, text);
    memory_wipe(text, sizeof text);
    return ok ? ERR_OK
              : fault_set(f, ERR_BAD_VALUE, "", "platform.key_file: %s holds no API key", path);
}

#include "crypto/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "crypto/crypto.h"

enum err secret_read(const char *option, const char *path, char *to, size_t capacity, size_t *ret_size, struct fault *f)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return fault_set(f, ERR_NOT_FOUND, option, "%s: %s cannot be opened: %m", option, path);
    size_t size = 0;
    int error = file_read(fd, to, capacity, &size) ? 0 : errno;
    close(fd);
    bool too_long = size == capacity;
    while (size > 0 && (to[size - 1] == '\n' || to[size - 1] == '\r')) size--;
    if (error == 0 && size > 0 && !too_long && memchr(to, 0, size) == NULL) {
        to[size] = '\0';
        *ret_size = size;
        return ERR_OK;
    }
    memory_wipe(to, capacity);
    if (error != 0) return fault_set(f, ERR_NOT_FOUND, option, "%s: %s cannot be read: %s", option, path, strerror(error));
    return fault_set(f, ERR_BAD_VALUE, option, "%s: %s does not hold one line of 1 to %zu bytes", option, path, capacity - 2);
}

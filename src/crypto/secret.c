#include "crypto/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "crypto/crypto.h"

/* The same check as ssh makes for a key. A file of another user, such as root's secrets from
 * Docker, Kubernetes and systemd, we could not chmod, and its mode does not matter: no other
 * user is in that container. */
static bool is_ours_and_open(int fd, mode_t *ret_mode)
{
    struct stat s;
    if (fstat(fd, &s) != 0 || !S_ISREG(s.st_mode) || s.st_uid != geteuid()) return false;
    *ret_mode = s.st_mode & 0777;
    return (s.st_mode & 077) != 0;
}

enum err secret_read(const char *option, const char *path, char *to, size_t capacity,
                     size_t *ret_size, struct fault *f)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return fault_set(f, ERR_NOT_FOUND, option, "%s: %s cannot be opened: %m", option, path);
    mode_t mode;
    if (is_ours_and_open(fd, &mode)) {
        close(fd);
        return fault_set(
            f, ERR_BAD_VALUE, option,
            "%s: %s is open to others (mode %03o): chmod 600 it, and treat its content as known to others",
            option, path, (unsigned)mode);
    }
    size_t size = 0;
    int error = file_read(fd, to, capacity, &size) ? 0 : errno;
    close(fd);
    while (size > 0 && (to[size - 1] == '\n' || to[size - 1] == '\r')) size--;
    bool is_a_line = memchr(to, '\0', size) == NULL && memchr(to, '\n', size) == NULL &&
                     memchr(to, '\r', size) == NULL;
    if (error == 0 && size > 0 && size <= capacity - 2 && is_a_line) {
        to[size] = '\0';
        *ret_size = size;
        return ERR_OK;
    }
    memory_wipe(to, capacity);
    if (error != 0)
        return fault_set(f, ERR_NOT_FOUND, option, "%s: %s cannot be read: %s", option, path,
                         strerror(error));
    return fault_set(f, ERR_BAD_VALUE, option, "%s: %s does not hold one line of 1 to %zu bytes",
                     option, path, capacity - 2);
}

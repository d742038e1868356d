/* fleet_skip.c - messages of the log that this engine passes over, because a person has decided so
 * (fleet/skips.h). Each start that passes over one records it. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "engine/fleet/member_inside.h"

enum err member_read_skips(struct fleet_member *m, struct fault *f)
{
    char path[4096];
    size_t size = 0;
    snprintf(path, sizeof path, "%s/engine/fleet.skip", m->engine->config.data);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) return ERR_OK;
    const bool is_read = fd >= 0 && file_read(fd, m->skips_text, sizeof m->skips_text, &size);
    const int reason = errno;
    if (fd >= 0) close(fd);
    if (!is_read) return fault_set(f, err_from_errno(reason), "", "%s: %s", path, strerror(reason));
    if (skips_read(str_of(m->skips_text, size), &m->id, &m->skips) == ERR_OK) return ERR_OK;
    return fault_set(f, ERR_CORRUPT, "",
                     "%s is damaged, or has more than %d lines. writ fleet skip writes it: remove "
                     "it, and repeat your decisions",
                     path, SKIPS_MAX);
}

bool member_passes_over(struct fleet_member *m, uint64_t offset, const char *what)
{
    struct skip *s = skips_find(&m->skips, offset);
    if (s == NULL) return false;
    s->was_used = true;
    log_text(LOG_WARNING, "fleet_message_skipped",
             "offset %" PRIu64 " is passed over, as a person has decided: %s", offset, what);
    return true;
}

enum err member_check_skips(const struct fleet_member *m, uint64_t from, struct fault *f)
{
    for (unsigned i = 0; i < m->skips.count; i++) {
        const struct skip *s = &m->skips.list[i];
        if (s->was_used || s->offset < from) continue;
        return fault_set(
            f, ERR_BAD_VALUE, "",
            "fleet: engine/fleet.skip names offset %" PRIu64
            ", and %s. Remove that line from the file",
            s->offset,
            s->offset < m->fleet.replay.next
                ? "the message there is an entry of this fleet, which is not passed over"
                : "the log has no message there yet");
    }
    return ERR_OK;
}

bool fleet_member_skipped(const struct fleet_member *m, unsigned *at, char to[FLEET_REASON_TEXT])
{
    while (*at < m->skips.count) {
        const struct skip *s = &m->skips.list[(*at)++];
        if (!s->was_used) continue;
        snprintf(to, FLEET_REASON_TEXT,
                 "this engine passes over offset %" PRIu64 " of the fleet's log: %.*s", s->offset,
                 (int)(s->reason.size < 200 ? s->reason.size : 200), s->reason.bytes);
        return true;
    }
    return false;
}

/* idle.c - options that were set and from which nothing follows, since what they belong to is not.
 *
 * They are told, and not refused: one file may hold what several installations share, of which some
 * have no Kafka, and a refusal would end a start that was good before. */
#include "base/log.h"
#include "config/table.h"

static const struct need {
    unsigned option, needed;
} needs[] = {
#define NEEDS(field, needed) {CONFIG_AT_##field, CONFIG_AT_##needed},
#include "config/needs.def"
#undef NEEDS
};

/* A text that is "" was not. */
static bool is_set(const struct config *c, const struct option *o)
{
    if (c->sources[o->index] == NULL) return false;
    return !option_is_string(o) || **(const char *const *)((const char *)c + o->place) != '\0';
}

void config_tell_idle(const struct config *c, enum program program)
{
    for (size_t i = 0; i < sizeof needs / sizeof *needs; i++) {
        const struct option *o = option_at(needs[i].option), *needed = option_at(needs[i].needed);
        if ((o->programs & program) != 0 && is_set(c, o) && !is_set(c, needed))
            log_text(LOG_WARNING, "option_idle",
                     "%s (%s) is set and %s is not: nothing follows from it", o->name,
                     c->sources[o->index], needed->name);
    }
}

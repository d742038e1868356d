/* idle.c - logs options that were set but have no effect, because the option that they need is not
 * set.
 *
 * They are logged, not refused: several installations may share one file, some of them without
 * Kafka, and a refusal would prevent a start that was possible before. */
#include "base/log.h"
#include "config/table.h"

static const struct need {
    unsigned option, needed;
} needs[] = {
#define NEEDS(field, needed) {CONFIG_AT_##field, CONFIG_AT_##needed},
#include "config/needs.def"
#undef NEEDS
};

/* A text that is "" was not set. */
static bool is_set(const struct config *c, const struct option *o)
{
    if (c->sources[o->index] == NULL) return false;
    return !option_is_string(o) || **(const char *const *)((const char *)c + o->place) != '\0';
}

void config_tell_former(const struct config *c, enum program program)
{
    for (size_t i = 0; i < option_count(); i++) {
        const struct option *o = option_at(i);
        if (c->sources[i] == NULL || (o->programs & program) == 0) continue;
        if (c->former[i] != NULL)
            log_text(
                LOG_WARNING, "option_former",
                "%s (%s) is now called %s: rename it, because the next version does not read the former name",
                c->former[i], c->sources[i], o->name);
        if (option_instead(o) != NULL)
            log_text(LOG_WARNING, "option_former", "%s (%s) is removed in the next version: %s",
                     o->name, c->sources[i], option_instead(o));
    }
}

void config_tell_idle(const struct config *c, enum program program)
{
    for (size_t i = 0; i < sizeof needs / sizeof *needs; i++) {
        const struct option *o = option_at(needs[i].option), *needed = option_at(needs[i].needed);
        if ((o->programs & program) != 0 && is_set(c, o) && !is_set(c, needed))
            log_text(LOG_WARNING, "option_idle", "%s (%s) has no effect, because %s is not set",
                     o->name, c->sources[o->index], needed->name);
    }
}

/* zone.c - see zone.h.
 *
 * A TZif file is two blocks, of which the second (64-bit times) is read, and a footer: a POSIX TZ
 * text such as CET-1CEST,M3.5.0,M10.5.0/3 for all times after the last transition. Before the first
 * one, local time type 0 holds (RFC 9636, 3.2). Counts are bounded and every offset is checked
 * against the file's size; an invalid file is no zone. */
#include "cel/zone.h"

#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/map.h"

#define ZONE_FOLDER "/usr/share/zoneinfo"

enum {
    FILE_MAX = 256 << 10,
    NAME_MAX_BYTES = 64,
    TRANSITIONS_MAX = 8192,
    ZONES_MAX = 4096,
    FOLDER_DEPTH = 3,
    HEADER_BYTES = 44,
    DAY = 86400,
};

enum rule_kind { RULE_MONTH, RULE_JULIAN, RULE_DAY }; /* Mm.w.d, Jn (no 29 February), n */

struct rule {
    enum rule_kind kind;
    int month, week, day;
    int32_t seconds; /* of local time */
};

struct cel_zone {
    char name[NAME_MAX_BYTES + 1];
    uint32_t count;
    int64_t *times;   /* of the transitions, rising */
    int32_t *offsets; /* from each on */
    int32_t first;    /* before all */
    bool has_footer, has_dst;
    int32_t standard, daylight;
    struct rule start, end; /* of daylight time */
};

/* ---- the footer ---- */

static bool take(const char **at, char byte)
{
    if (**at != byte) return false;
    (*at)++;
    return true;
}

static bool take_number(const char **at, int most, int *ret)
{
    int value = 0;
    const char *first = *at;
    for (; **at >= '0' && **at <= '9'; (*at)++) {
        value = value * 10 + (**at - '0');
        if (value > most) return false;
    }
    *ret = value;
    return *at > first;
}

/* [+-]hh[:mm[:ss]] */
static bool take_time(const char **at, int32_t *ret)
{
    int sign = take(at, '-') ? -1 : 1, hours, minutes = 0, seconds = 0;
    if (sign > 0) take(at, '+');
    if (!take_number(at, 167, &hours)) return false;
    if (take(at, ':') && !take_number(at, 59, &minutes)) return false;
    if (**at == ':') {
        (*at)++;
        if (!take_number(at, 59, &seconds)) return false;
    }
    *ret = sign * (hours * 3600 + minutes * 60 + seconds);
    return true;
}

static bool skip_name(const char **at)
{
    const char *first = *at;
    if (take(at, '<')) {
        while (**at != '\0' && **at != '>') (*at)++;
        return take(at, '>');
    }
    while ((**at >= 'A' && **at <= 'Z') || (**at >= 'a' && **at <= 'z')) (*at)++;
    return *at - first >= 3;
}

static bool take_rule(const char **at, struct rule *ret)
{
    *ret = (struct rule){.seconds = 2 * 3600};
    if (!take(at, ',')) return false;
    if (take(at, 'M')) {
        ret->kind = RULE_MONTH;
        if (!take_number(at, 12, &ret->month) || !take(at, '.') ||
            !take_number(at, 5, &ret->week) || !take(at, '.') || !take_number(at, 6, &ret->day) ||
            ret->month < 1 || ret->week < 1)
            return false;
    } else {
        ret->kind = take(at, 'J') ? RULE_JULIAN : RULE_DAY;
        if (!take_number(at, 365, &ret->day) || (ret->kind == RULE_JULIAN && ret->day < 1))
            return false;
    }
    return !take(at, '/') || take_time(at, &ret->seconds);
}

/* POSIX offsets are west of UTC. */
static bool read_footer(const char *text, struct cel_zone *z)
{
    if (!skip_name(&text) || !take_time(&text, &z->standard)) return false;
    z->standard = -z->standard;
    if (*text == '\0') return true;
    z->has_dst = true;
    z->daylight = z->standard + 3600;
    if (!skip_name(&text)) return false;
    if (*text != ',' && *text != '\0') {
        if (!take_time(&text, &z->daylight)) return false;
        z->daylight = -z->daylight;
    }
    return take_rule(&text, &z->start) && take_rule(&text, &z->end) && *text == '\0';
}

static bool is_leap(int64_t year) { return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0); }

/* Days from 1970-01-01 to the first of January. */
static int64_t year_start(int64_t year)
{
    int64_t before = year - 1;
    return before * 365 + before / 4 - before / 100 + before / 400 - 719162;
}

static int rule_day(const struct rule *r, int64_t year)
{
    static const int starts[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365};
    bool leap = is_leap(year);
    if (r->kind == RULE_DAY) return r->day;
    if (r->kind == RULE_JULIAN) return r->day - 1 + (leap && r->day >= 60);
    int first = starts[r->month - 1] + (leap && r->month > 2);
    int next = starts[r->month] + (leap && r->month >= 2);
    int weekday = (int)(((year_start(year) + first) % 7 + 11) % 7);
    int day = first + (r->day - weekday + 7) % 7 + (r->week - 1) * 7;
    return day >= next ? day - 7 : day;
}

static int32_t footer_offset(const struct cel_zone *z, int64_t seconds)
{
    if (!z->has_dst) return z->standard;
    /* The year in standard time; a rule never reaches further than a week around its day. */
    int64_t local = seconds + z->standard;
    int64_t days = local / DAY - (local % DAY < 0);
    int64_t year = 1970 + days * 400 / 146097;
    while (year_start(year + 1) <= days) year++;
    while (year_start(year) > days) year--;
    int64_t start =
        (year_start(year) + rule_day(&z->start, year)) * DAY + z->start.seconds - z->standard;
    int64_t end = (year_start(year) + rule_day(&z->end, year)) * DAY + z->end.seconds - z->daylight;
    bool is_daylight =
        start < end ? seconds >= start && seconds < end : seconds >= start || seconds < end;
    return is_daylight ? z->daylight : z->standard;
}

int32_t zone_offset(const struct cel_zone *z, int64_t seconds)
{
    if (z->count == 0 || seconds < z->times[0])
        return z->count == 0 && z->has_footer ? footer_offset(z, seconds) : z->first;
    if (z->has_footer && seconds >= z->times[z->count - 1]) return footer_offset(z, seconds);
    uint32_t low = 0, high = z->count; /* times[low] <= seconds < times[high] */
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (z->times[middle] <= seconds)
            low = middle;
        else
            high = middle;
    }
    return z->offsets[low];
}

/* ---- the file ---- */

static uint32_t big32(const unsigned char *b)
{
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

static int64_t big64(const unsigned char *b)
{
    return (int64_t)((uint64_t)big32(b) << 32 | big32(b + 4));
}

struct counts {
    size_t utc, standard, leaps, times, types, characters;
};

static bool read_header(const unsigned char *b, size_t size, struct counts *ret)
{
    if (size < HEADER_BYTES || memcmp(b, "TZif", 4) != 0 || b[4] < '2') return false;
    *ret = (struct counts){big32(b + 20), big32(b + 24), big32(b + 28),
                           big32(b + 32), big32(b + 36), big32(b + 40)};
    return ret->times <= TRANSITIONS_MAX && ret->types >= 1 && ret->types <= 256 &&
           ret->characters <= 4096 && ret->leaps <= 4096 && ret->utc <= 256 && ret->standard <= 256;
}

static size_t block_bytes(const struct counts *c, size_t time_bytes)
{
    return c->times * (time_bytes + 1) + c->types * 6 + c->characters +
           c->leaps * (time_bytes + 4) + c->standard + c->utc;
}

static bool read_transitions(const unsigned char *b, const struct counts *c, struct cel_zone *z)
{
    const unsigned char *indexes = b + c->times * 8, *types = indexes + c->times;
    z->times = malloc((c->times + 1) * sizeof *z->times);
    z->offsets = malloc((c->times + 1) * sizeof *z->offsets);
    if (z->times == NULL || z->offsets == NULL) return false;
    z->first = (int32_t)big32(types);
    for (size_t i = 0; i < c->times; i++) {
        z->times[i] = big64(b + i * 8);
        if (indexes[i] >= c->types || (i > 0 && z->times[i] <= z->times[i - 1])) return false;
        z->offsets[i] = (int32_t)big32(types + indexes[i] * 6);
        if (z->offsets[i] < -2 * DAY || z->offsets[i] > 2 * DAY) return false;
    }
    z->count = (uint32_t)c->times;
    return z->first >= -2 * DAY && z->first <= 2 * DAY;
}

static bool read_zone(const unsigned char *b, size_t size, struct cel_zone *z)
{
    struct counts old, c;
    if (!read_header(b, size, &old)) return false;
    size_t at = HEADER_BYTES + block_bytes(&old, 4);
    if (at > size || !read_header(b + at, size - at, &c)) return false;
    at += HEADER_BYTES;
    size_t end = at + block_bytes(&c, 8);
    if (end > size || !read_transitions(b + at, &c, z)) return false;
    char footer[128];
    size_t length = size - end;
    if (length < 2 || length > sizeof footer || b[end] != '\n' || b[size - 1] != '\n') return false;
    memcpy(footer, b + end + 1, length - 2);
    footer[length - 2] = '\0';
    z->has_footer = footer[0] != '\0';
    return !z->has_footer || read_footer(footer, z);
}

static void zone_destroy(struct cel_zone *z)
{
    if (z == NULL) return;
    free(z->times);
    free(z->offsets);
    free(z);
}

static struct cel_zone *load(struct str name)
{
    char path[sizeof ZONE_FOLDER + NAME_MAX_BYTES + 2];
    snprintf(path, sizeof path, ZONE_FOLDER "/%.*s", STR_FORMAT(name));
    FILE *file = fopen(path, "rb");
    if (file == NULL) return NULL;
    unsigned char *bytes = malloc(FILE_MAX);
    struct cel_zone *z = calloc(1, sizeof *z);
    size_t size = bytes == NULL ? 0 : fread(bytes, 1, FILE_MAX, file);
    fclose(file);
    if (z == NULL || size == FILE_MAX || !read_zone(bytes, size, z)) {
        zone_destroy(z);
        z = NULL;
    } else {
        memcpy(z->name, name.bytes, name.size);
    }
    free(bytes);
    return z;
}

/* ---- all that were read ---- */

static pthread_mutex_t zones_lock = PTHREAD_MUTEX_INITIALIZER;
static struct map zones; /* never shrinks: zones live as long as the process */

static bool is_zone_name(struct str name)
{
    if (name.size == 0 || name.size > NAME_MAX_BYTES || name.bytes[0] < 'A' || name.bytes[0] > 'Z')
        return false;
    for (size_t i = 0; i < name.size; i++) {
        char c = name.bytes[i];
        bool fine = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                    c == '_' || c == '-' || c == '+' || c == '/';
        if (!fine) return false;
    }
    return true;
}

static struct str usual_name(struct str name) { return name.size == 0 ? STR("UTC") : name; }

static struct cel_zone *get_or_load(struct str name)
{
    struct cel_zone *z = map_get(&zones, name);
    if (z != NULL || zones.count >= ZONES_MAX) return z;
    z = load(name);
    if (z != NULL && !map_put(&zones, str_from(z->name), z)) {
        zone_destroy(z);
        z = NULL;
    }
    return z;
}

const struct cel_zone *zone_find(struct str name)
{
    name = usual_name(name);
    if (!is_zone_name(name)) return NULL;
    pthread_mutex_lock(&zones_lock);
    const struct cel_zone *z = get_or_load(name);
    pthread_mutex_unlock(&zones_lock);
    return z;
}

const struct cel_zone *zone_find_loaded(struct str name)
{
    name = usual_name(name);
    if (!is_zone_name(name)) return NULL;
    pthread_mutex_lock(&zones_lock);
    const struct cel_zone *z = map_get(&zones, name);
    pthread_mutex_unlock(&zones_lock);
    return z;
}

static void load_folder(struct str below, unsigned depth)
{
    char path[sizeof ZONE_FOLDER + NAME_MAX_BYTES + 2];
    snprintf(path, sizeof path, ZONE_FOLDER "/%.*s", STR_FORMAT(below));
    DIR *folder = depth > FOLDER_DEPTH ? NULL : opendir(path);
    struct dirent *entry;
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        char name[NAME_MAX_BYTES + 2];
        int size = snprintf(name, sizeof name, "%.*s%s%s", STR_FORMAT(below),
                            below.size > 0 ? "/" : "", entry->d_name);
        if (size < 0 || (size_t)size >= sizeof name || !is_zone_name(str_from(name))) continue;
        if (get_or_load(str_from(name)) == NULL) load_folder(str_from(name), depth + 1);
    }
    if (folder != NULL) closedir(folder);
}

static void load_every_zone(void)
{
    pthread_mutex_lock(&zones_lock);
    load_folder(STR(""), 0);
    pthread_mutex_unlock(&zones_lock);
}

void zone_load_all(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    check(pthread_once(&once, load_every_zone) == 0);
}

bool zone_fixed(struct str name, int32_t *ret_seconds)
{
    if (name.size == 0 || str_equal(name, STR("UTC"))) {
        *ret_seconds = 0;
        return true;
    }
    int32_t sign = name.bytes[0] == '-' ? -1 : 1;
    if (name.bytes[0] == '-' || name.bytes[0] == '+') name = str_skip(name, 1);
    if (name.size != 5 || name.bytes[2] != ':') return false;
    for (size_t i = 0; i < 5; i++)
        if (i != 2 && (name.bytes[i] < '0' || name.bytes[i] > '9')) return false;
    int32_t hours = (name.bytes[0] - '0') * 10 + name.bytes[1] - '0';
    int32_t minutes = (name.bytes[3] - '0') * 10 + name.bytes[4] - '0';
    *ret_seconds = sign * (hours * 3600 + minutes * 60);
    return hours <= 23 && minutes <= 59;
}

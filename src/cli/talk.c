/* talk.c - the output of the commands, and the files and texts that they read. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/time.h"
#include "base/world.h"
#include "cli/cli.h"
#include "config/config.h"

enum { COMPLAINT_MAX = 8 << 10 };

int cli_complain(struct cli *c, int code, const char *format, ...)
{
    char text[COMPLAINT_MAX];
    struct arena shown; /* memory of its own: the error may be that the command's arena is full */
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    size_t kept = size < 0 ? 0 : (size_t)size < sizeof text ? (size_t)size : sizeof text - 1;
    arena_init(&shown, 1 << 10, 8 * COMPLAINT_MAX);
    fprintf(c->err, "writ: %.*s\n", STR_FORMAT(text_shown(&shown, str_of(text, kept))));
    arena_fini(&shown);
    return code;
}

int cli_complain_fault(struct cli *c, int code, const struct fault *f)
{
    return cli_complain(c, code, "%s", f->text);
}

void print_str(FILE *out, struct str s)
{
    if (s.size > 0) fwrite(s.bytes, 1, s.size, out);
}

bool print_end(FILE *out) { return fflush(out) == 0 && !ferror(out); }

void print_json(struct cli *c, struct str json)
{
    print_str(c->out, json);
    fputc('\n', c->out);
}

void print_verdict(struct cli *c, struct str verdict)
{
    static const struct {
        const char *word, *colour;
    } colours[] = {{"allow", "32"}, {"deny", "31"}, {"human_review", "33"}, {"compute", "36"}};
    for (size_t i = 0; c->colours && i < sizeof colours / sizeof colours[0]; i++) {
        if (!str_equal(verdict, str_from(colours[i].word))) continue;
        fprintf(c->out, "\033[1;%sm%s\033[0m", colours[i].colour, colours[i].word);
        return;
    }
    print_str(c->out, verdict);
}

/* ---- JSON for people ---- */

static void put_value(struct buf *out, const struct json *v)
{
    if (v->type == JSON_STRING) {
        buf_put(out, v->string);
        return;
    }
    if (v->type != JSON_ARRAY) {
        json_put_canonical(out, v);
        return;
    }
    for (const struct json *item = v->child; item != NULL; item = item->next) {
        put_value(out, item);
        if (item->next != NULL) buf_put_byte(out, ',');
    }
}

struct str value_shown(struct cli *c, const struct json *v)
{
    if (v == NULL || v->type == JSON_NULL) return (struct str){0};
    struct buf out;
    buf_init(&out, 256, 1 << 20);
    put_value(&out, v);
    struct str shown = text_shown(&c->arena, buf_view(&out));
    buf_fini(&out);
    return shown;
}

struct str member_shown(struct cli *c, const struct json *object, const char *name)
{
    return value_shown(c, json_get(object, str_from(name)));
}

bool resource_has_more(const struct json *resource)
{
    if (resource == NULL || !json_is_object(resource)) return false;
    for (const struct json *m = resource->child; m != NULL; m = m->next)
        if (!str_equal(m->key, STR("type")) && !str_equal(m->key, STR("id"))) return true;
    return false;
}

void print_field(struct cli *c, const char *name, struct str value)
{
    if (str_is_empty(value)) return;
    fprintf(c->out, "  %-13s %.*s\n", name, STR_FORMAT(value));
}

/* ---- input ---- */

struct str environment_value(const struct cli *c, const char *name)
{
    size_t size = strlen(name);
    for (size_t i = 0; c->environment != NULL && c->environment[i] != NULL; i++) {
        const char *entry = c->environment[i];
        if (strncmp(entry, name, size) == 0 && entry[size] == '=' && entry[size + 1] != '\0')
            return str_from(entry + size + 1);
    }
    return (struct str){0};
}

int file_text(struct cli *c, struct str path, size_t most, struct str *ret)
{
    bool is_input = str_equal(path, STR("-"));
    int fd = is_input ? STDIN_FILENO : open(path.bytes, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return cli_complain(c, USAGE, "%s cannot be opened: %s", path.bytes, strerror(errno));
    char *bytes = arena_bytes(&c->arena, most + 1);
    size_t size;
    int error = bytes == NULL ? ENOMEM : file_read(fd, bytes, most + 1, &size) ? 0 : errno;
    if (!is_input) close(fd);
    if (error != 0)
        return cli_complain(c, USAGE, "%s cannot be read: %s", path.bytes, strerror(error));
    if (size > most) return cli_complain(c, USAGE, "%s is larger than %zu bytes", path.bytes, most);
    arena_trim(&c->arena, bytes, most + 1, size);
    *ret = str_of(bytes, size);
    return DONE;
}

static struct str time_text(struct cli *c, uint64_t ms)
{
    char *to = arena_bytes(&c->arena, TIME_TEXT);
    if (to == NULL) return (struct str){0};
    time_write(ms, to);
    return str_of(to, TIME_TEXT);
}

bool time_or_ago(struct cli *c, struct str text, struct str *ret)
{
    uint64_t ms;
    if (config_span(text, &ms)) {
        uint64_t now = world_now_ms();
        *ret = time_text(c, ms < now ? now - ms : 0);
        return true;
    }
    *ret = text;
    return time_read_any(text, &(int64_t){0});
}

bool time_or_in(struct cli *c, struct str text, struct str *ret)
{
    uint64_t ms;
    if (config_span(text, &ms)) {
        if (ms > 3153600000000) return false; /* more than a century counts as a mistake */
        *ret = time_text(c, world_now_ms() + ms);
        return true;
    }
    *ret = text;
    return time_read(text, &ms);
}

bool metric_find(struct str scrape, const char *name, double *ret)
{
    for (struct str rest = scrape, line; str_split(&rest, '\n', &line);) {
        if (!str_starts(line, str_from(name)) || line.size <= strlen(name) ||
            line.bytes[strlen(name)] != ' ')
            continue;
        return json_number_read(str_skip(line, strlen(name) + 1), ret);
    }
    return false;
}

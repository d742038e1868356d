#include "hook/check.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "hook/answer.h"
#include "hook/settings_file.h"
#include "hook/trust.h"

enum { OUTPUT_BYTES = 64 << 10, STATUS_DENIED = 2 };

extern char **environ;

static const char *const canaries[] = {
    [HOOK_FORM_CLAUDE] =
        "{\"hook_event_name\":\"PreToolUse\",\"tool_name\":\"" HOOK_CANARY "\",\"tool_input\":{}}",
    [HOOK_FORM_GEMINI] =
        "{\"hook_event_name\":\"BeforeTool\",\"tool_name\":\"" HOOK_CANARY "\",\"tool_input\":{}}",
    [HOOK_FORM_COPILOT] = "{\"toolName\":\"" HOOK_CANARY "\",\"toolArgs\":{}}",
    [HOOK_FORM_CURSOR] =
        "{\"hook_event_name\":\"preToolUse\",\"tool_name\":\"" HOOK_CANARY "\",\"tool_input\":{}}",
    [HOOK_FORM_OPENCLAW] = "{\"toolName\":\"" HOOK_CANARY "\",\"params\":{}}",
};

struct output {
    int status; /* of the shell; -1: it did not exit */
    char out[OUTPUT_BYTES], err[OUTPUT_BYTES];
    size_t out_size, err_size;
};

static size_t failures;

static void finding(bool good, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void finding(bool good, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    failures += !good;
    printf("%-4s  hook      ", good ? "ok" : "BAD");
    vprintf(format, arguments);
    putchar('\n');
    va_end(arguments);
}

/* A temporary file without a name: neither side waits for the other. */
static int scratch(void)
{
    char path[] = "/tmp/writ-hook-XXXXXX";
    int fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0) unlink(path);
    return fd;
}

static bool spawn_shell(const char *line, const int streams[3], struct output *ret)
{
    posix_spawn_file_actions_t actions;
    char *words[] = {"sh", "-c", (char *)line, NULL};
    pid_t pid;
    int status;
    posix_spawn_file_actions_init(&actions);
    for (int i = 0; i < 3; i++) posix_spawn_file_actions_adddup2(&actions, streams[i], i);
    int error = posix_spawnp(&pid, words[0], &actions, NULL, words, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (error != 0) return false;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR) return false;
    ret->status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return true;
}

/* Runs the line as an agent does. False: it cannot be run; errno. */
static bool run(const char *line, struct str input, struct output *ret)
{
    int streams[3] = {scratch(), scratch(), scratch()};
    bool is_run = streams[0] >= 0 && streams[1] >= 0 && streams[2] >= 0 &&
                  file_write(streams[0], input) && lseek(streams[0], 0, SEEK_SET) == 0 &&
                  spawn_shell(line, streams, ret) && lseek(streams[1], 0, SEEK_SET) == 0 &&
                  lseek(streams[2], 0, SEEK_SET) == 0 &&
                  file_read(streams[1], ret->out, OUTPUT_BYTES, &ret->out_size) &&
                  file_read(streams[2], ret->err, OUTPUT_BYTES, &ret->err_size);
    for (int i = 0; i < 3; i++)
        if (streams[i] >= 0) close(streams[i]);
    return is_run;
}

/* The reason, if the output is a denial in all its forms. */
static struct str denial_of(const struct hook_agent *agent, const struct output *o)
{
    char expected[OUTPUT_BYTES];
    struct buf out = buf_over(expected, sizeof expected);
    struct str reason = str_of(o->err, o->err_size);
    if (o->status != STATUS_DENIED || !str_starts(reason, STR("writ: "))) return (struct str){0};
    reason = str_of(reason.bytes + 6, str_find(str_skip(reason, 6), '\n'));
    answer_put_deny(&out, agent, reason);
    bool is_whole = !out.overflow && str_equal(buf_view(&out), str_of(o->out, o->out_size));
    return is_whole ? reason : (struct str){0};
}

static void try_line(const struct hook_agent *agent, const char *line)
{
    static struct output o;
    if (!run(line, str_from(canaries[agent->form]), &o)) {
        finding(false, "the line of the settings cannot be run: %s", strerror(errno));
        return;
    }
    struct str reason = denial_of(agent, &o);
    bool by_engine =
        reason.size > 0 && memmem(reason.bytes, reason.size, "(denied by ", 11) != NULL;
    if (by_engine)
        finding(true, "a call that the engine denies is denied: %.*s", STR_FORMAT(reason));
    else if (reason.size > 0)
        finding(false, "calls are denied, but the engine does not decide: %.*s",
                STR_FORMAT(reason));
    else
        finding(false, "a call that has to be denied was not: status %d, standard error: %.*s",
                o.status, (int)o.err_size, o.err);
    if (!run(line, STR(""), &o) || o.status != STATUS_DENIED || o.err_size == 0)
        finding(false, "without a call the line does not deny: status %d", o.status);
    else
        finding(true, "without a call the line denies");
}

static void check_trust(const struct settings_file *file, const struct hook_options *o)
{
    struct fault f;
    bool applies =
        str_equal(str_from(o->agent->name), STR("codex")) && !o->managed && str_is_absent(o->to);
    if (!applies) return;
    if (codex_trust(str_from(file->path), STR("writ-hook"), true, &f) == ERR_OK)
        finding(true, "Codex trusts the hook");
    else
        finding(false, "%s", f.text);
}

int hook_check(const struct hook_options *o)
{
    struct settings_file file;
    struct fault f;
    struct str line;
    struct buf again;
    failures = 0;
    buf_init(&again, 4 << 10, SETTINGS_BYTES_MAX);
    enum err err = settings_file_open(&file, o, &f);
    if (err == ERR_OK && str_is_absent(file.before))
        err = fault_set(&f, ERR_NOT_FOUND, "", "there is no such file: install the hook");
    if (err == ERR_OK)
        err = settings_line(file.place, o->agent, file.before, &file.arena, &line, &f);
    /* what an installation refuses, a later edit may have brought in */
    if (err == ERR_OK)
        err = settings_with(file.place, o, line, file.before, &file.arena, &again, &f);
    if (err == ERR_OK) {
        struct str text = arena_copy(&file.arena, line);
        finding(true, "%s starts the hook of %s", file.path, o->agent->title);
        check_trust(&file, o);
        try_line(o->agent, str_is_absent(text) ? "" : text.bytes);
    } else {
        finding(false, "%s: %s", file.path, f.text);
    }
    buf_fini(&again);
    settings_file_close(&file);
    return failures == 0 ? 0 : 1;
}

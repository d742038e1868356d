#include "hook/trust.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/world.h"
#include "json/json.h"

enum { LINE_MOST = 4 << 20, REPLY_SECONDS = 30 };

extern char **environ;

struct server {
    pid_t pid;
    int to, from;
    uint64_t next_id, until_ns;
    struct buf read; /* bytes of lines that have not been taken */
    size_t taken;
    struct arena arena;
};

/* ---- the process ---- */

static bool pair(int ends[2]) { return pipe2(ends, O_CLOEXEC) == 0; }

static enum err server_start(struct server *s, struct fault *f)
{
    int in[2], out[2];
    posix_spawn_file_actions_t actions;
    char *words[] = {"codex", "app-server", NULL};
    if (!pair(in) || !pair(out)) return fault_set(f, ERR_IO, "", "no pipe can be made: %m");
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    int error = posix_spawnp(&s->pid, words[0], &actions, NULL, words, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(in[0]);
    close(out[1]);
    s->to = in[1];
    s->from = out[0];
    if (error == 0) return ERR_OK;
    s->pid = 0;
    return fault_set(
        f, ERR_NOT_FOUND, "",
        "codex cannot be started (%s), so the hook is not trusted, and Codex skips it: "
        "put codex on PATH and repeat this",
        strerror(error));
}

static void server_end(struct server *s)
{
    close(s->to);
    close(s->from);
    if (s->pid > 0) {
        kill(s->pid, SIGTERM);
        while (waitpid(s->pid, NULL, 0) < 0 && errno == EINTR) continue;
    }
    buf_fini(&s->read);
    arena_fini(&s->arena);
}

/* ---- lines ---- */

static enum err read_more(struct server *s, struct fault *f)
{
    uint64_t now_ns = world_monotonic_ns();
    struct pollfd p = {.fd = s->from, .events = POLLIN};
    int wait_ms = now_ns < s->until_ns ? (int)((s->until_ns - now_ns) / 1000000) + 1 : 0;
    if (wait_ms == 0 || poll(&p, 1, wait_ms) == 0)
        return fault_set(f, ERR_TIMEOUT, "", "codex has not answered within %d s", REPLY_SECONDS);
    if (!buf_room(&s->read, 64 << 10)) return fault_plain(f, ERR_FULL);
    ssize_t n = read(s->from, s->read.bytes + s->read.size, 64 << 10);
    if (n < 0 && errno == EINTR) return ERR_OK;
    if (n <= 0) return fault_set(f, ERR_CLOSED, "", "codex ended without an answer");
    s->read.size += (size_t)n;
    return ERR_OK;
}

/* The next line that answers `id`; notices in between are skipped. */
static enum err answer_of(struct server *s, uint64_t id, struct json **ret, struct fault *f)
{
    const struct json_options options = {.depth_max = JSON_DEPTH_CAP, .nul_anywhere = true};
    for (;;) {
        struct str left = str_skip(buf_view(&s->read), s->taken);
        size_t size = str_find(left, '\n');
        if (size == left.size) {
            enum err err = read_more(s, f);
            if (err != ERR_OK) return err;
            continue;
        }
        s->taken += size + 1;
        struct str line = arena_copy(&s->arena, str_of(left.bytes, size));
        struct json *root;
        struct fault why;
        if (str_is_absent(line) || json_read(line, &options, &s->arena, &root, &why) != ERR_OK)
            return fault_set(f, ERR_BAD_VALUE, "", "codex does not speak JSON");
        if (json_u64(root, STR("id"), 0) != id) continue;
        *ret = json_get(root, STR("result"));
        if (*ret != NULL) return ERR_OK;
        struct str message = json_text(json_get(root, STR("error")), STR("message"));
        return fault_set(f, ERR_BAD_VALUE, "", "codex refused: %.*s", STR_FORMAT(message));
    }
}

static enum err request(struct server *s, const char *method, struct str params, struct json **ret,
                        struct fault *f)
{
    struct buf line;
    uint64_t id = ++s->next_id;
    buf_init(&line, 1 << 10, LINE_MOST);
    buf_printf(&line, "{\"id\":%llu,\"method\":\"%s\",\"params\":", (unsigned long long)id, method);
    buf_put(&line, params);
    buf_put_literal(&line, "}\n");
    bool sent = !line.overflow && file_write(s->to, buf_view(&line));
    buf_fini(&line);
    if (!sent) return fault_set(f, ERR_CLOSED, "", "codex does not read its input");
    s->until_ns = world_monotonic_ns() + REPLY_SECONDS * 1000000000ull;
    return answer_of(s, id, ret, f);
}

/* ---- the trust ---- */

static const struct json *find_hook(const struct json *listed, struct str file, struct str mark)
{
    const struct json *data = json_get(listed, STR("data"));
    for (const struct json *d = json_is_array(data) ? data->child : NULL; d != NULL; d = d->next) {
        const struct json *hooks = json_get(d, STR("hooks"));
        for (const struct json *h = json_is_array(hooks) ? hooks->child : NULL; h != NULL;
             h = h->next) {
            struct str line = json_text(h, STR("command"));
            if (str_equal(json_text(h, STR("sourcePath")), file) &&
                memmem(line.bytes, line.size, mark.bytes, mark.size) != NULL)
                return h;
        }
    }
    return NULL;
}

static enum err look(struct server *s, struct str file, struct str mark, const struct json **ret,
                     struct fault *f)
{
    struct json *listed;
    enum err err = request(s, "hooks/list", STR("{\"cwds\":[\"/\"]}"), &listed, f);
    if (err != ERR_OK) return err;
    *ret = find_hook(listed, file, mark);
    if (*ret == NULL || json_get(*ret, STR("enabled")) == NULL ||
        json_get(*ret, STR("enabled"))->type != JSON_TRUE)
        return fault_set(f, ERR_BAD_VALUE, "", "Codex does not run the hook of %.*s",
                         STR_FORMAT(str_cut(file, 100)));
    return ERR_OK;
}

static bool is_trusted(const struct json *hook)
{
    struct str status = json_text(hook, STR("trustStatus"));
    return str_equal(status, STR("trusted")) || str_equal(status, STR("managed"));
}

static enum err write_trust(struct server *s, const struct json *hook, struct fault *f)
{
    struct json *ignored;
    struct buf params;
    buf_init(&params, 1 << 10, LINE_MOST);
    buf_put_literal(&params, "{\"edits\":[{\"keyPath\":\"hooks.state\",\"value\":{");
    json_put_string(&params, json_text(hook, STR("key")));
    buf_put_literal(&params, ":{\"trusted_hash\":");
    json_put_string(&params, json_text(hook, STR("currentHash")));
    buf_put_literal(&params, "}},\"mergeStrategy\":\"upsert\"}]}");
    enum err err = request(s, "config/batchWrite", buf_view(&params), &ignored, f);
    buf_fini(&params);
    return err;
}

static enum err converse(struct server *s, struct str file, struct str mark, bool only_look,
                         struct fault *f)
{
    static const char hello[] =
        "{\"clientInfo\":{\"name\":\"writ-hook\",\"version\":\"" WRIT_VERSION "\"}}";
    struct json *ignored;
    const struct json *hook;
    enum err err = request(s, "initialize", str_from(hello), &ignored, f);
    if (err == ERR_OK && !file_write(s->to, STR("{\"method\":\"initialized\"}\n")))
        err = fault_set(f, ERR_CLOSED, "", "codex does not read its input");
    if (err == ERR_OK) err = look(s, file, mark, &hook, f);
    if (err == ERR_OK && !only_look && !is_trusted(hook)) {
        err = write_trust(s, hook, f);
        if (err == ERR_OK) err = look(s, file, mark, &hook, f);
    }
    if (err != ERR_OK || is_trusted(hook)) return err;
    return fault_set(f, ERR_BAD_VALUE, "",
                     "Codex does not trust the hook and skips it: install it again");
}

enum err codex_trust(struct str file, struct str mark, bool only_look, struct fault *f)
{
    struct server s = {.to = -1, .from = -1};
    buf_init(&s.read, 64 << 10, LINE_MOST);
    arena_init(&s.arena, 64 << 10, 64 << 20);
    enum err err = server_start(&s, f);
    if (err == ERR_OK) err = converse(&s, file, mark, only_look, f);
    server_end(&s);
    return err;
}

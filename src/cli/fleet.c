/* fleet.c - `writ fleet`: several engines with one state.
 *
 * The view is that of the engine that answers, from the heartbeats in the fleet's log. Of an engine that
 * admits no agent, or is silent, the reason is in its own /healthz, which needs no key: it is asked for
 * it at the address that it gives to the others. A key is sent to the engine of --engine alone. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/world.h"
#include "cli/cli.h"
#include "fleet/skips.h"
#include "http/client.h"

enum {
    LOOK_MS = 2000,
    EVERY_MS = 250,
    WAIT_MS = 8000, /* longer than a leader waits for its successor */
    TRIES = 3,
    BODY_MAX = 8 << 10,
    MARK_MAX = 256,
    PATH_BYTES = 4096,
};

/* ---- show ---- */

static const char *const heads[] = {"NODE",       "STATE",   "OFFSET", "LAG",      "LEASE LEFT",
                                    "*HEARTBEAT", "VERSION", "FORMAT", "*ADDRESS", NULL};

static struct str seconds_shown(struct cli *c, const struct json *one, const char *name,
                                const char *behind)
{
    struct buf text = cli_scratch(c, 64);
    const uint64_t ms = json_u64(one, str_from(name), 0);
    buf_printf(&text, "%llu.%llu s%s", (unsigned long long)(ms / 1000),
               (unsigned long long)(ms % 1000 / 100), behind);
    return buf_view(&text);
}

static void add_member(struct cli *c, struct table *t, const struct json *one)
{
    table_add(t, member_shown(c, one, "node"));
    table_add(t, member_shown(c, one, "state"));
    table_add(t, member_shown(c, one, "applied_offset"));
    table_add(t, member_shown(c, one, "lag"));
    table_add(t, seconds_shown(c, one, "lease_left_ms", ""));
    table_add(t, seconds_shown(c, one, "heartbeat_ms_ago", " ago"));
    table_add(t, member_shown(c, one, "version"));
    table_add(t, member_shown(c, one, "known_format"));
    table_add(t, member_shown(c, one, "address"));
}

static int ask(struct cli *c, const char *path, bool is_quiet, struct reply *ret)
{
    struct request r = {.side = SIDE_ENGINE,
                        .method = "GET",
                        .target = str_from(path),
                        .quiet = is_quiet,
                        .timeout_ms = LOOK_MS};
    return cli_call(c, &r, ret);
}

/* Asks a member itself, without the key. */
static void print_trouble(struct cli *c, const struct json *member)
{
    const struct str node = member_shown(c, member, "node"), before = c->engine;
    struct http_client *client = c->clients[SIDE_ENGINE];
    struct reply reply;
    struct request r = {.side = SIDE_ENGINE,
                        .method = "GET",
                        .target = STR("/healthz"),
                        .without_key = true,
                        .quiet = true,
                        .timeout_ms = LOOK_MS};
    c->engine = json_text(member, STR("address"));
    c->clients[SIDE_ENGINE] = NULL;
    const int code = cli_call(c, &r, &reply);
    http_client_destroy(c->clients[SIDE_ENGINE]);
    c->clients[SIDE_ENGINE] = client;
    fprintf(c->out, "%.*s: ", STR_FORMAT(node));
    if (code != DONE) {
        fprintf(c->out, "not reached from here at %.*s\n",
                STR_FORMAT(text_shown(&c->arena, c->engine)));
    } else {
        const struct json *checks = json_get(reply.root, STR("checks"));
        print_str(c->out, member_shown(c, checks, "fleet"));
        fputc('\n', c->out);
    }
    c->engine = before;
}

static void print_view(struct cli *c, const struct reply *r)
{
    const struct json *members = json_get(r->root, STR("members"));
    struct table t;
    print_field(c, "fleet", member_shown(c, r->root, "fleet"));
    print_field(c, "leader", member_shown(c, r->root, "leader"));
    print_field(c, "term", member_shown(c, r->root, "term"));
    print_field(c, "log", member_shown(c, r->root, "next_offset"));
    print_field(c, "format", member_shown(c, r->root, "format"));
    print_field(c, "seen by", member_shown(c, r->root, "node"));
    print_field(c, "reading ended", member_shown(c, r->root, "reading_ended"));
    fputc('\n', c->out);
    table_init(&t, &c->arena, heads);
    const struct json *first = members != NULL && json_is_array(members) ? members->child : NULL;
    for (const struct json *m = first; m != NULL; m = m->next) add_member(c, &t, m);
    table_print(&t, c->out, c->width);
    for (const struct json *m = first; m != NULL; m = m->next) {
        const struct str state = json_text(m, STR("state"));
        if (str_equal(state, STR("closed")) || str_equal(state, STR("silent"))) print_trouble(c, m);
    }
}

static int fleet_show(struct cli *c, const struct arguments *a)
{
    struct reply reply;
    (void)a;
    int code = ask(c, "/v1/fleet", false, &reply);
    if (code != DONE) return code;
    if (c->json)
        print_json(c, reply.body);
    else
        print_view(c, &reply);
    return DONE;
}

/* ---- lead, upgrade ---- */

static bool has_no_leader(const struct reply *r)
{
    if (r->status != 503 || r->root == NULL) return false;
    const struct str code = json_text(r->root, STR("code"));
    return str_equal(code, STR("leader_changed")) || str_equal(code, STR("no_leader"));
}

/* An engine that has just won serves a moment later, and nothing was done: it is asked again. */
static int post(struct cli *c, const struct arguments *a, const char *path, struct str node,
                struct reply *ret)
{
    struct buf body = cli_scratch(c, BODY_MAX);
    buf_put_byte(&body, '{');
    put_text_member(&body, "node", node);
    put_text_member(&body, "reason", argument_text(a, "reason"));
    buf_put_byte(&body, '}');
    if (body.overflow) return cli_complain(c, USAGE, "--reason is too long");
    struct request r = {
        .side = SIDE_ENGINE, .method = "POST", .target = str_from(path), .body = buf_view(&body)};
    const struct timespec pause = {.tv_nsec = EVERY_MS * 1000000};
    const uint64_t since_ns = world_monotonic_ns();
    do {
        r.quiet = world_monotonic_ns() - since_ns < (uint64_t)WAIT_MS * 1000000;
        int code = cli_call(c, &r, ret);
        if (code == DONE || !r.quiet) return code;
        nanosleep(&pause, NULL);
    } while (has_no_leader(ret));
    r.quiet = false; /* it is refused, and prints why */
    return cli_call(c, &r, ret);
}

/* Until the fleet is so, by any engine's view. False: not within WAIT_MS. */
static bool await(struct cli *c, bool (*is_so)(const struct json *view, const void *context),
                  const void *context, struct reply *ret)
{
    const struct timespec pause = {.tv_nsec = EVERY_MS * 1000000};
    const uint64_t since_ns = world_monotonic_ns();
    do {
        if (ask(c, "/v1/fleet", true, ret) == DONE && is_so(ret->root, context)) return true;
        nanosleep(&pause, NULL);
    } while (world_monotonic_ns() - since_ns < (uint64_t)WAIT_MS * 1000000);
    return false;
}

/* It leads, and serves already. */
static bool is_led_by(const struct json *view, const void *context)
{
    const struct str node = *(const struct str *)context;
    const struct json *members = json_get(view, STR("members"));
    if (!str_equal(json_text(view, STR("leader")), node)) return false;
    for (const struct json *m = members == NULL ? NULL : members->child; m != NULL; m = m->next)
        if (str_equal(json_text(m, STR("node")), node))
            return str_equal(json_text(m, STR("state")), STR("leads"));
    return false;
}

static int fleet_lead(struct cli *c, const struct arguments *a)
{
    const struct str node = argument_at(a, 0);
    struct reply reply;
    bool leads = false;
    /* The engine may just have been started again, under an incarnation that the leader did not know. */
    for (unsigned tries = 0; !leads && tries < TRIES; tries++) {
        int code = post(c, a, "/v1/fleet/lead", node, &reply);
        if (code != DONE) return code;
        leads = await(c, is_led_by, &node, &reply);
    }
    if (!leads)
        return cli_complain(
            c, REFUSED, "%.*s did not take over within %d s; writ fleet shows which engine leads",
            STR_FORMAT(text_shown(&c->arena, node)), TRIES * WAIT_MS / 1000);
    if (c->json)
        print_json(c, reply.body);
    else
        fprintf(c->out, "%.*s leads in term %llu.\n", STR_FORMAT(text_shown(&c->arena, node)),
                (unsigned long long)json_u64(reply.root, STR("term"), 0));
    return DONE;
}

static bool has_format(const struct json *view, const void *context)
{
    return json_u64(view, STR("format"), 0) >= *(const uint64_t *)context;
}

static int fleet_upgrade(struct cli *c, const struct arguments *a)
{
    struct reply reply;
    int code = post(c, a, "/v1/fleet/upgrade", (struct str){0}, &reply);
    if (code != DONE) return code;
    const uint64_t format = json_u64(reply.root, STR("format"), 0);
    if (!await(c, has_format, &format, &reply))
        return cli_complain(c, REFUSED, "the log did not get format %llu within %d s; try again",
                            (unsigned long long)format, WAIT_MS / 1000);
    if (c->json)
        print_json(c, reply.body);
    else
        fprintf(c->out, "The log of the fleet has format %llu, the newest that all engines know.\n",
                (unsigned long long)format);
    return DONE;
}

/* ---- skip ---- */

/* The fleet that this data directory is in. */
static int read_mark(struct cli *c, const char *data, struct fleet_id *ret)
{
    char path[PATH_BYTES], text[MARK_MAX + 1];
    size_t size = 0;
    snprintf(path, sizeof path, "%s/engine/fleet", data);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    const bool is_read = fd >= 0 && file_read(fd, text, MARK_MAX, &size);
    if (fd >= 0) close(fd);
    text[size] = '\0';
    const char *space = strchr(text, ' ');
    if (is_read && space != NULL && strlen(space + 1) >= 2 * sizeof ret->bytes &&
        hex_read(space + 1, ret->bytes, sizeof ret->bytes))
        return DONE;
    return cli_complain(
        c, USAGE, "%s cannot be read, so %s is not the data directory of an engine in a fleet",
        path, data);
}

/* The engine holds its journal's lock while it runs. */
static int lock_engine(struct cli *c, const char *data, int *ret_fd)
{
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/engine/journal/lock", data);
    *ret_fd = open(path, O_RDWR | O_CLOEXEC);
    if (*ret_fd < 0 && errno == ENOENT) return DONE; /* it has never started wholly */
    if (*ret_fd >= 0 && flock(*ret_fd, LOCK_EX | LOCK_NB) == 0) return DONE;
    return cli_complain(
        c, REFUSED, "the engine of %s runs, or its journal cannot be locked: stop it first", data);
}

static int add_line(struct cli *c, const char *data, const struct fleet_id *fleet,
                    const struct skip *s)
{
    char path[PATH_BYTES], next[PATH_BYTES], folder[PATH_BYTES];
    static char before[SKIPS_BYTES_MAX];
    static struct skips skips;
    struct buf text = cli_scratch(c, SKIPS_BYTES_MAX);
    size_t size = 0;
    snprintf(folder, sizeof folder, "%s/engine", data);
    if (snprintf(path, sizeof path, "%s/engine/fleet.skip", data) >= (int)sizeof path - 5)
        return cli_complain(c, USAGE, "--data is too long");
    snprintf(next, sizeof next, "%s/engine/fleet.skip.new", data);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    const bool is_read = fd >= 0 ? file_read(fd, before, sizeof before, &size) : errno == ENOENT;
    if (fd >= 0) close(fd);
    if (!is_read || skips_read(str_of(before, size), fleet, &skips) != ERR_OK)
        return cli_complain(c, REFUSED, "%s cannot be read, or is damaged", path);
    if (skips_find(&skips, s->offset) != NULL) return DONE;
    buf_put(&text, str_of(before, size));
    skips_put(&text, fleet, s);
    if (text.overflow || skips.count == SKIPS_MAX)
        return cli_complain(c, REFUSED, "%s has %d lines already, which is the limit", path,
                            SKIPS_MAX);
    if ((unlink(next) != 0 && errno != ENOENT) || !file_make(next, buf_view(&text)) ||
        rename(next, path) != 0 || !folder_sync(folder))
        return cli_complain(c, REFUSED, "%s: %s", path, strerror(errno));
    return DONE;
}

static int fleet_skip(struct cli *c, const struct arguments *a)
{
    const struct str data = argument_text(a, "data");
    struct skip s = {.reason = argument_text(a, "reason"), .at_ms = world_now_ms()};
    struct fleet_id fleet;
    int lock = -1;
    if (!str_to_u64(argument_at(a, 0), &s.offset))
        return cli_complain(c, USAGE, "\"%s\" is no offset; /healthz of the engine has it",
                            argument_at(a, 0).bytes);
    if (str_is_empty(data) || str_is_empty(s.reason))
        return cli_complain(c, USAGE, "%s is needed: writ fleet skip --help",
                            str_is_empty(data) ? "--data" : "--reason");
    int code = read_mark(c, data.bytes, &fleet);
    if (code == DONE) code = lock_engine(c, data.bytes, &lock);
    if (code == DONE) code = add_line(c, data.bytes, &fleet, &s);
    if (lock >= 0) close(lock);
    if (code != DONE) return code;
    fprintf(
        c->out,
        "The engine of %s passes over offset %llu at its next start, and records that. Each engine of\n"
        "the fleet needs the same decision.\n",
        data.bytes, (unsigned long long)s.offset);
    return DONE;
}

static const char show_text[] =
    "STATE is leads, follows, closed, silent or left. A closed engine admits no agent: it starts, does\n"
    "not read the log, or its reading ended. OFFSET is up to where an engine has applied the log, LAG\n"
    "what it has not yet, and FORMAT the newest one that it knows. Engines that left or are lost are\n"
    "shown for an hour. The key needs the role admin or metrics.";
static const char lead_text[] =
    "The leader stops serving requests of the state, finishes what it has, and asks NODE to take over.\n"
    "Then it ends, and its supervisor starts it again as a replica. Meanwhile, for about a second,\n"
    "requests get 503 leader_changed. If NODE does not take over, the leader goes on. The key needs the\n"
    "role admin, and tenant *. The audit trail records it (engine.fleet).";
static const char skip_text[] =
    "For an engine that does not start, or ended reading, because of a message in the fleet's log that\n"
    "is no entry of the fleet: a client without the pepper has written it. Find that client first.\n"
    "Works on the data directory of an engine that is stopped. Entries are never passed over, so\n"
    "nothing of the state can be left out by mistake. The audit trail records it (engine.fleet).";
static const char upgrade_text[] =
    "Engines of two versions write the format that the older one knows. When all are upgraded, this\n"
    "raises it. Older versions then cannot read the log any more. Refused while an engine does not know\n"
    "the new format. The key needs the role admin, and tenant *. The audit trail records it\n"
    "(engine.fleet).";

static const struct flag reason_flags[] = {{"reason", "TEXT", "why, for the record"},
                                           {NULL, NULL, NULL}};
static const struct flag skip_flags[] = {
    {"data", "DIR", "the data directory of the engine, which is stopped"},
    {"reason", "TEXT", "why, for the record"},
    {NULL, NULL, NULL}};

const struct command fleet_commands[] = {
    {"fleet", "", "", "show the engines of a fleet: leader, offsets, lag, lease, version",
     show_text, NULL, 0, 0, fleet_show},
    {"fleet", "lead", "NODE", "let another engine lead the fleet", lead_text, reason_flags, 1, 1,
     fleet_lead},
    {"fleet", "skip", "OFFSET", "pass over a message of the log that is no entry", skip_text,
     skip_flags, 1, 1, fleet_skip},
    {"fleet", "upgrade", "", "raise the format of the log, when all engines are upgraded",
     upgrade_text, reason_flags, 0, 0, fleet_upgrade},
    {NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, NULL}};

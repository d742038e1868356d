/* key.c - `writ key`: API keys, through the platform, or directly in its data directory for the
 * first key, when no key exists yet for a request to the platform. */
#include "store/database.h"
#include "store/key_store.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "access/key.h"
#include "base/limits.h"
#include "base/shown.h"
#include "cli/cli.h"
#include "cli/key.h"
#include "cli/key_output.h"
#include "config/config.h"

enum { BODY_MAX = 64 << 10, OVERLAP_MS = 24 * 3600 * 1000 };

static int refuse_time(struct cli *c, const char *flag)
{
    return cli_complain(
        c, USAGE,
        "--%s: the value is neither a span such as 30d nor a time such as 2027-01-01T00:00:00Z",
        flag);
}

/* One of --rate: requests a second, or NAME=NUMBER. */
static bool rate_read(struct str one, struct rates *r)
{
    static const struct {
        const char *name;
        enum rate_kind kind;
        bool (*read)(struct str text, uint64_t *ret);
    } names[] = {{"requests", RATE_REQUESTS, str_to_u64},
                 {"cpu", RATE_CPU, config_span},
                 {"journal", RATE_JOURNAL, config_bytes},
                 {"audit_queries", RATE_AUDIT_QUERIES, str_to_u64},
                 {"connections", RATE_CONNECTIONS, str_to_u64}};
    const size_t equals = str_find(one, '=');
    const bool is_plain = equals == one.size;
    const struct str name = is_plain ? STR("requests") : str_of(one.bytes, equals);
    const struct str value = is_plain ? one : str_skip(one, equals + 1);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        uint64_t *most = &r->most[names[i].kind];
        if (!str_equal(name, str_from(names[i].name)) || *most != 0) continue;
        return names[i].read(value, most) && *most > 0 && *most <= LIMIT_RATE;
    }
    return false;
}

static int rates_body(struct cli *c, struct str rates, struct buf *out)
{
    struct rates r = {0};
    for (struct str one; str_split(&rates, ',', &one);)
        if (!rate_read(one, &r))
            return cli_complain(
                c, USAGE,
                "--rate: \"%.*s\" is neither a number of requests a second nor one of requests=N, "
                "cpu=SPAN, journal=SIZE, audit_queries=N, connections=N",
                STR_FORMAT(one));
    if (!rates_any(&r)) return DONE;
    buf_put_byte(out, ',');
    rates_put(out, &r);
    out->size--; /* its comma */
    return DONE;
}

/* The body of POST /api/v1/keys. */
static int key_body(struct cli *c, const struct arguments *a, struct str tenant, struct buf *out)
{
    static const char *const lists[] = {"roles",     "actors", "users",
                                        "reviewers", "nodes",  "tenants"};
    struct str expires = argument_text(a, "expires");
    if (str_is_empty(argument_text(a, "name")) || str_is_empty(argument_text(a, "owner")) ||
        str_is_empty(argument_text(a, "roles")))
        return cli_complain(c, USAGE,
                            "--name, --owner and --roles are needed: writ key create --help");
    if (!str_is_absent(expires) && !time_or_in(c, expires, &expires))
        return refuse_time(c, "expires");
    struct str roles = argument_text(a, "roles");
    for (struct str role; str_split(&roles, ',', &role);) {
        enum role known;
        while (role.size > 0 && role.bytes[0] == ' ') role = str_skip(role, 1);
        if (!role_read(role, &known))
            return cli_complain(
                c, USAGE,
                "--roles: \"%.*s\" is not one of agent, app, reviewer, policy_admin, auditor, "
                "ingest, metrics, admin",
                STR_FORMAT(role));
    }
    buf_put_byte(out, '{');
    put_text_member(out, "name", argument_text(a, "name"));
    put_text_member(out, "owner", argument_text(a, "owner"));
    put_text_member(out, "tenant", tenant);
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        put_list_member(out, lists[i], argument_text(a, lists[i]));
    put_text_member(out, "expires_at", expires);
    if (rates_body(c, argument_text(a, "rate"), out) != DONE) return USAGE;
    buf_put_byte(out, '}');
    return out->overflow
               ? cli_complain(
                     c, USAGE,
                     "the lists and names are too long: the request for a key is larger than 64 KiB")
               : DONE;
}

/* What the answer has besides the key. */
static void print_json_without_key(struct cli *c, struct json *root)
{
    struct buf out;
    for (struct json **m = &root->child; *m != NULL; m = &(*m)->next)
        if (str_equal((*m)->key, STR("key"))) {
            *m = (*m)->next;
            root->count--;
            break;
        }
    buf_init(&out, 1024, LIMIT_REPLY_BYTES);
    json_put_canonical(&out, root);
    print_json(c, buf_view(&out));
    buf_fini(&out);
}

/* A shell made the file before this program began. */
static void warn_of_readers(struct cli *c)
{
    struct stat s;
    int fd = fileno(c->out);
    if (fd < 0 || fstat(fd, &s) != 0 || !S_ISREG(s.st_mode) ||
        (s.st_mode & (S_IRGRP | S_IROTH)) == 0)
        return;
    fputs("Other users can read the file of the output. chmod 600 it, or use --output FILE.\n",
          c->err);
}

/* The key alone on standard output, or in the file of --output; everything else on stderr. */
static int hand_over_key(struct cli *c, struct key_output *to, struct json *root, struct str body)
{
    struct str key = json_text(root, STR("key"));
    struct id id;
    if (to->path != NULL) {
        if (!credential_read(key, &id))
            return cli_complain(c, REFUSED, "the answer has no valid key, so %s was not written",
                                to->path);
        int code = key_output_commit(c, to, key);
        if (code != DONE) return code;
    } else {
        warn_of_readers(c);
    }
    if (c->json) {
        if (to->path == NULL)
            print_json(c, body);
        else
            print_json_without_key(c, root);
        return DONE;
    }
    fprintf(c->err, "This is %.*s, for %.*s (%.*s). ", STR_FORMAT(member_shown(c, root, "id")),
            STR_FORMAT(member_shown(c, root, "name")), STR_FORMAT(member_shown(c, root, "roles")));
    if (to->path == NULL) {
        if (!credential_read(key, &id))
            key = text_shown(&c->arena, key); /* no control characters for a terminal */
        fprintf(c->out, "%.*s\n", STR_FORMAT(key));
        fputs("Keep it now: it is shown once and stored nowhere.\n", c->err);
    } else {
        fprintf(c->err, "It is in %s, and stored nowhere else.\n", to->path);
    }
    struct str expires = member_shown(c, root, "expires_at");
    if (expires.size > 0) fprintf(c->err, "It ends at %.*s.\n", STR_FORMAT(expires));
    return DONE;
}

/* ---- without a platform ---- */

static int make_folder(struct cli *c, struct str data)
{
    if (mkdir(data.bytes, 0700) == 0 || errno == EEXIST) return DONE;
    return cli_complain(c, REFUSED, "%s cannot be made: %s", data.bytes, strerror(errno));
}

/* No file is made here: a mistyped address would make a new file with the key in it. */
static int check_store(struct cli *c, struct str place)
{
    if (database_is_address(place.bytes) || access(place.bytes, F_OK) == 0) return DONE;
    return cli_complain(c, USAGE,
                        "--store: \"%.*s\" is neither an address such as "
                        "postgresql://user@host:5432/name nor a file that exists",
                        STR_FORMAT(shown_address(place)));
}

int data_place_read(struct cli *c, const struct arguments *a, struct data_place *ret)
{
    struct str data = argument_text(a, "data");
    if (data.size == 0) return cli_complain(c, USAGE, "--data needs a directory");
    int code = argument_given(a, "store") ? check_store(c, argument_text(a, "store")) : DONE;
    if (code != DONE) return code;
    ret->pepper = arena_printf(&c->arena, "%s/pepper", data.bytes).bytes;
    ret->store = argument_given(a, "store")
                     ? argument_text(a, "store").bytes
                     : arena_printf(&c->arena, "%s/platform.db", data.bytes).bytes;
    return ret->pepper != NULL && ret->store != NULL
               ? DONE
               : cli_complain(c, REFUSED, "there is no memory");
}

static int bootstrap(struct cli *c, const struct arguments *a, struct str data,
                     struct key_output *to)
{
    struct buf body = cli_scratch(c, BODY_MAX);
    struct data_place at = {0};
    struct str tenant = str_is_absent(c->tenant) ? STR("default") : c->tenant;
    int code = data_place_read(c, a, &at);
    if (code == DONE) code = key_body(c, a, tenant, &body);
    if (code == DONE) code = make_folder(c, data);
    if (code != DONE) return code;
    bool is_new = access(at.pepper, F_OK) != 0 && errno == ENOENT;

    struct json *request, *root;
    struct fault f;
    struct buf answer;
    buf_init(&answer, 1024, 1 << 20);
    enum err e = json_read(buf_view(&body), NULL, &c->arena, &request, &f);
    if (e == ERR_OK) e = key_store_bootstrap(at.store, at.pepper, request, &answer, &f);
    if (e == ERR_OK) e = json_read(buf_view(&answer), NULL, &c->arena, &root, &f);
    code = e == ERR_OK ? hand_over_key(c, to, root, buf_view(&answer))
                       : cli_complain_fault(c, REFUSED, &f);
    if (e == ERR_OK && is_new)
        fprintf(c->err, "%s had no pepper, so it is a new installation now.\n", data.bytes);
    if (answer.bytes != NULL) memory_wipe(answer.bytes, answer.size);
    buf_fini(&answer);
    return code;
}

static int create_at_platform(struct cli *c, const struct arguments *a, struct key_output *to)
{
    struct buf body = cli_scratch(c, BODY_MAX);
    struct target target;
    struct reply reply;
    int code = key_body(c, a, c->tenant, &body);
    if (code != DONE) return code;
    target_init(c, &target, "/api/v1/keys");
    target_tenant(&target, c);
    struct request r = {.side = SIDE_PLATFORM,
                        .method = "POST",
                        .target = target_text(&target),
                        .body = buf_view(&body)};
    code = cli_call(c, &r, &reply);
    return code == DONE ? hand_over_key(c, to, reply.root, reply.body) : code;
}

static int key_create(struct cli *c, const struct arguments *a)
{
    bool is_direct = argument_given(a, "data");
    struct key_output to;
    if (argument_given(a, "store") && !is_direct)
        return cli_complain(c, USAGE,
                            "--store needs --data DIR beside it: the pepper is in that directory");
    int code = key_output_open(c, a, &to);
    if (code == DONE)
        code = is_direct ? bootstrap(c, a, argument_text(a, "data"), &to)
                         : create_at_platform(c, a, &to);
    key_output_abandon(&to);
    return code;
}

/* ---- list, revoke, rotate ---- */

static struct str key_state(struct cli *c, const struct json *k)
{
    struct str expires = member_shown(c, k, "expires_at"), now;
    if (member_shown(c, k, "revoked_at").size > 0) return STR("revoked");
    /* Both are RFC 3339 UTC with milliseconds, so the order of bytes is the order of time. */
    if (expires.size > 0 && time_or_ago(c, STR("0"), &now) && str_compare(expires, now) <= 0)
        return STR("expired");
    return expires.size > 0 ? expires : STR("valid");
}

static uint32_t roles_of(const struct json *k)
{
    const struct json *list = json_get(k, STR("roles"));
    uint32_t roles = 0;
    if (!json_is_array(list)) return 0;
    for (const struct json *one = list->child; one != NULL; one = one->next) {
        enum role role;
        if (json_is_string(one) && role_read(one->string, &role)) roles |= role;
    }
    return roles;
}

/* Lists that the roles do not use give no rights. */
static struct str speaks_for(struct cli *c, const struct json *k)
{
    static const struct {
        const char *member;
        uint32_t roles;
    } all[] = {{"actors", ROLE_AGENT},
               {"users", ROLE_AGENT | ROLE_APP},
               {"reviewers", ROLE_REVIEWER},
               {"nodes", ROLE_INGEST},
               {"tenants", ROLE_INGEST}};
    uint32_t roles = roles_of(k);
    struct str text = {0};
    const struct json *rates = json_get(k, STR("rates"));
    for (const struct json *r = json_is_object(rates) ? rates->child : NULL; r != NULL; r = r->next)
        text = arena_printf(&c->arena, "%.*s%srate of %.*s %llu", STR_FORMAT(text),
                            text.size > 0 ? "; " : "", STR_FORMAT(text_shown(&c->arena, r->key)),
                            (unsigned long long)json_u64(rates, r->key, 0));
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct str some = member_shown(c, k, all[i].member);
        if ((roles & all[i].roles) == 0 || some.size == 0) continue;
        text = arena_printf(&c->arena, "%.*s%s%s %.*s", STR_FORMAT(text), text.size > 0 ? "; " : "",
                            all[i].member, STR_FORMAT(some));
    }
    return text;
}

void key_add_cells(struct cli *c, struct table *t, const struct json *k)
{
    static const char *const members[] = {"id", "name", "owner", "tenant", "roles"};
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        table_add(t, member_shown(c, k, members[i]));
    table_add(t, speaks_for(c, k));
    table_add(t, key_state(c, k));
}

static int key_list(struct cli *c, const struct arguments *a)
{
    static const char *const heads[] = {KEY_HEADS, NULL};
    static const struct listing listing = {SIDE_PLATFORM, "keys", heads, key_add_cells, "500"};
    struct target target;
    target_init(c, &target, "/api/v1/keys");
    target_tenant(&target, c);
    return page_list(c, a, &target, &listing);
}

static void print_revoked(struct cli *c, FILE *to, const char *id, const struct json *root)
{
    struct str behind = member_shown(c, root, "behind");
    fprintf(to, "%s is revoked", id);
    if (behind.size == 0)
        fputs(", and every engine has applied it.\n", to);
    else
        fprintf(to,
                ". These engines have not applied it yet: %.*s. Until then, they accept the key.\n",
                STR_FORMAT(behind));
}

static int key_revoke(struct cli *c, const struct arguments *a)
{
    struct target target;
    struct reply reply;
    target_init(c, &target, "/api/v1/keys");
    target_segment(&target, argument_at(a, 0));
    target_tenant(&target, c);
    struct request r = {.side = SIDE_PLATFORM, .method = "DELETE", .target = target_text(&target)};
    int code = cli_call(c, &r, &reply);
    if (code != DONE) return code;
    if (c->json) {
        print_json(c, reply.body);
        return DONE;
    }
    print_revoked(c, c->out, a->positionals[0], reply.root);
    return DONE;
}

/* How long the old key still works. */
static int read_overlap(struct cli *c, const struct arguments *a, uint64_t *ret_ms)
{
    struct str overlap = argument_text(a, "overlap");
    *ret_ms = OVERLAP_MS;
    if (argument_given(a, "now")) {
        *ret_ms = 0;
        return str_is_absent(overlap)
                   ? DONE
                   : cli_complain(c, USAGE, "--now and --overlap exclude each other");
    }
    if (str_is_absent(overlap) || (config_span(overlap, ret_ms) && *ret_ms % 1000 == 0))
        return DONE;
    return cli_complain(c, USAGE,
                        "--overlap: \"%.*s\" is not a span of whole seconds such as 30m or 24h",
                        STR_FORMAT(overlap));
}

static int rotate_into(struct cli *c, const struct arguments *a, uint64_t overlap_ms,
                       struct key_output *to)
{
    const char *old = a->positionals[0];
    struct buf body = cli_scratch(c, 128);
    struct target target;
    struct reply reply;
    target_init(c, &target, "/api/v1/keys");
    target_segment(&target, argument_at(a, 0));
    buf_put_literal(&target.text, "/rotate");
    target_tenant(&target, c);
    buf_printf(&body, "{\"overlap_seconds\":%llu}", (unsigned long long)(overlap_ms / 1000));
    struct request r = {.side = SIDE_PLATFORM,
                        .method = "POST",
                        .target = target_text(&target),
                        .body = buf_view(&body)};
    int code = cli_call(c, &r, &reply);
    if (code == DONE) code = hand_over_key(c, to, reply.root, reply.body);
    if (code != DONE || c->json) return code;
    if (overlap_ms == 0)
        print_revoked(c, c->err, old, reply.root);
    else
        fprintf(c->err, "%s works until %.*s.\n", old,
                STR_FORMAT(member_shown(c, json_get(reply.root, STR("replaces")), "expires_at")));
    return DONE;
}

static int key_rotate(struct cli *c, const struct arguments *a)
{
    struct key_output to;
    uint64_t overlap_ms;
    int code = read_overlap(c, a, &overlap_ms);
    if (code != DONE) return code;
    code = key_output_open(c, a, &to);
    if (code == DONE) code = rotate_into(c, a, overlap_ms, &to);
    key_output_abandon(&to);
    return code;
}

/* ---- the rows ---- */

static const struct flag create_flags[] = {
    {"name", "NAME", "the key's name: the principal that acts with it"},
    {"owner", "OWNER", "the person or team that is responsible for it"},
    {"roles", "LIST", "agent, app, reviewer, policy_admin, auditor, ingest, metrics, admin"},
    {"actors", "GLOBS", "agents that it may speak for (default: its name)"},
    {"users", "GLOBS", "people whom it may request for, or act for (default: none)"},
    {"reviewers", "GLOBS", "people that may review with it (default: its owner)"},
    {"nodes", "GLOBS", "engines that may publish with it (role ingest)"},
    {"tenants", "GLOBS", "tenants whose records it may publish (role ingest)"},
    {"expires", "SPAN|TIME", "when it ends: 90d, 2027-01-01T00:00:00Z (default: never)"},
    {"rate", "RATES", "at most N requests a second, or a list such as requests=20,cpu=100ms"},
    {"data", "DIR", "make it in this data directory, without a running platform"},
    {"store", "URL", "with --data: in this PostgreSQL database (or SQLite file) instead"},
    KEY_OUTPUT_FLAGS,
    {NULL, NULL, NULL}};
static const struct flag list_flags[] = {PAGE_FLAGS("500"), {NULL, NULL, NULL}};
static const struct flag rotate_flags[] = {
    {"overlap", "SPAN", "how long the old key still works (default: 24h)"},
    {"now", NULL, "end the old key at once"},
    KEY_OUTPUT_FLAGS,
    {NULL, NULL, NULL}};

const struct command key_commands[] = {
    {"key", "create", "", "make an API key and print it, once",
     "Lists are separated by commas. --rate takes requests=N (a second), cpu=SPAN (of each second),\n"
     "journal=SIZE (of records a day), audit_queries=N (a minute) and connections=N (at a time).\n"
     "They hold for all keys of its rotations together, in place of the options quota.key.….\n"
     "With --data the key is written into the platform's store in that\n"
     "directory (with --store: into that PostgreSQL database; the pepper is in the directory). Use this\n"
     "for the first key of a new installation. A running platform notices it.",
     create_flags, 0, 0, key_create},
    {"key", "list", "", "show keys with their owners and roles",
     "--tenant '*' lists the keys that are for every tenant.", list_flags, 0, 0, key_list},
    {"key", "revoke", "ID", "end a key now", "Lists the engines that have not applied it yet.",
     NULL, 1, 1, key_revoke},
    {"key", "rotate", "ID", "replace a key by a new one with the same rights",
     "The new key ends when the old one would have. Until the end of the overlap both keys work, so that\n"
     "each client can be given the new one. Use --now if the old key may be in wrong hands.",
     rotate_flags, 1, 1, key_rotate},
    {NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, NULL}};

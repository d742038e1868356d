/* policy_apply.c - `writ policy put DIR`: puts the documents of several files as one change. */
#include "cli/policy.h"

#include "base/check.h"
#include "base/limits.h"
#include "base/map.h"

/* `{"content":…,"name":…}` of one file. */
static int put_document(struct cli *c, const char *file, struct map *names, struct buf *out)
{
    struct str name = policy_name_of(str_from(file)), content;
    size_t offset;
    if (!policy_is_name(name))
        return cli_complain(c, USAGE, "%s is not named like a policy: 1 to %d of [A-Za-z0-9._-]",
                            file, POLICY_NAME_MAX);
    const char *other = map_get(names, name);
    if (other != NULL)
        return cli_complain(c, USAGE, "%s and %s are both the policy %.*s", other, file,
                            STR_FORMAT(name));
    check(map_put(names, name, (void *)(uintptr_t)file));
    int code = file_text(c, str_from(file), LIMIT_POLICY_BODY_BYTES, &content);
    if (code != DONE) return code;
    if (!str_is_utf8(content, &offset))
        return cli_complain(c, REFUSED, "%s: byte %zu is not UTF-8", file, offset);
    buf_put(out, names->count > 1 ? STR(",{\"content\":") : STR("{\"content\":"));
    json_put_string(out, content);
    buf_put_literal(out, ",\"name\":");
    json_put_string(out, name);
    buf_put_byte(out, '}');
    return DONE;
}

/* "a,b" as `"delete":[…]`. */
static void put_deletions(struct buf *out, struct str names)
{
    struct str one;
    buf_put_literal(out, "],\"delete\":[");
    for (size_t count = 0; str_split(&names, ',', &one);) {
        if (one.size == 0) continue;
        if (count++ > 0) buf_put_byte(out, ',');
        json_put_string(out, one);
    }
    buf_put_literal(out, "]}");
}

static int set_body(struct cli *c, const struct arguments *a, struct buf *out)
{
    struct policy_files files = {0};
    struct map names = {0};
    int code = DONE;
    for (size_t i = 0; i < a->positional_count && code == DONE; i++)
        code = policy_files_add(c, a->positionals[i], &files);
    buf_put_literal(out, "{\"policies\":[");
    for (size_t i = 0; i < files.count && code == DONE; i++)
        code = put_document(c, files.paths[i], &names, out);
    put_deletions(out, argument_text(a, "delete"));
    map_fini(&names);
    if (code == DONE && (out->overflow || out->size > LIMIT_POLICY_SET_BODY_BYTES))
        code = cli_complain(c, REFUSED,
                            "these documents are larger than the %d MiB of one request: "
                            "put them in parts, first the documents that define roles",
                            LIMIT_POLICY_SET_BODY_BYTES >> 20);
    return code;
}

static void tell_set(struct cli *c, const struct reply *reply, bool dry_run)
{
    const struct json *list = json_get(reply->root, STR("policies"));
    size_t unchanged = 0;
    for (const struct json *p = json_is_array(list) ? list->child : NULL; p != NULL; p = p->next) {
        struct str change = member_shown(c, p, "change"), name = member_shown(c, p, "name"),
                   version = member_shown(c, p, "version");
        bool is_unchanged = str_equal(change, STR("unchanged"));
        bool is_deletion = str_equal(change, STR("deleted"));
        unchanged += is_unchanged;
        if (is_unchanged) continue;
        if (is_deletion)
            fprintf(c->out, "%.*s %s deleted.\n", STR_FORMAT(name), dry_run ? "would be" : "is");
        else
            fprintf(c->out, "%.*s %s %.*s, as version %.*s.\n", STR_FORMAT(name),
                    dry_run ? "would be" : "is", STR_FORMAT(change), STR_FORMAT(version));
    }
    if (unchanged > 0)
        fprintf(c->out, "%zu polic%s unchanged.\n", unchanged, unchanged == 1 ? "y is" : "ies are");
    if (dry_run) fputs("Nothing was changed.\n", c->out);
    cli_tell_problems(c, "warning: ", json_get(reply->root, STR("warnings")));
}

int policy_put_set(struct cli *c, const struct arguments *a)
{
    static const char *const single[] = {"description", "active", "inactive", "new", "if-match"};
    for (size_t i = 0; i < sizeof single / sizeof *single; i++)
        if (argument_given(a, single[i]))
            return cli_complain(c, USAGE, "--%s is for one document; several are put as a set",
                                single[i]);
    struct buf body = cli_scratch(c, LIMIT_POLICY_SET_BODY_BYTES + (1 << 20));
    int code = set_body(c, a, &body);
    if (code != DONE) return code;
    struct target target;
    struct reply reply;
    bool dry_run = argument_given(a, "dry-run");
    target_init(c, &target, "/api/v1/policies:apply");
    target_tenant(&target, c);
    if (dry_run) target_query(&target, "dry_run", STR("true"));
    if (argument_given(a, "force")) target_query(&target, "force", STR("true"));
    struct request r = {.side = SIDE_PLATFORM,
                        .method = "POST",
                        .target = target_text(&target),
                        .body = buf_view(&body)};
    code = cli_call(c, &r, &reply);
    if (code != DONE) return code;
    if (c->json)
        print_json(c, reply.body);
    else
        tell_set(c, &reply, dry_run);
    policy_warn_dear(c, (struct str){0}, r.body);
    return DONE;
}

/* policy.c - `writ policy`: documents at the platform. Commands without a platform are in check.c
 * and policy_*.c; `explain` is in authorize.c. */
#include "cli/policy.h"

#include <unistd.h>

#include "base/limits.h"

/* more than a document of the largest size needs */
enum { BODY_MAX = 4 << 20 };

static void policy_target(struct cli *c, struct target *t, struct str name, const char *more)
{
    target_init(c, t, "/api/v1/policies");
    if (!str_is_absent(name)) target_segment(t, name);
    buf_put(&t->text, str_from(more));
    target_tenant(t, c);
}

/* ---- put ---- */

static const char *in_force_shown(const struct reply *reply)
{
    const struct json *active = json_get(reply->root, STR("is_active"));
    return active != NULL && active->type == JSON_FALSE ? ", not active" : "";
}

static void put_text(struct cli *c, const struct reply *reply, bool dry_run)
{
    cli_tell_problems(c, "warning: ", json_get(reply->root, STR("warnings")));
    struct str name = member_shown(c, reply->root, "name"),
               version = member_shown(c, reply->root, "version");
    if (dry_run) {
        struct str change = member_shown(c, reply->root, "change");
        fprintf(c->out, "%.*s is valid. It would be %.*s, as version %.*s; nothing was changed.\n",
                STR_FORMAT(name), STR_FORMAT(change), STR_FORMAT(version));
        return;
    }
    bool created = reply->status == 201;
    fprintf(c->out, "%.*s is %s version %.*s%s.\n", STR_FORMAT(name), created ? "new:" : "now",
            STR_FORMAT(version), in_force_shown(reply));
}

static int put_body(struct cli *c, const struct arguments *a, struct str content, struct buf *out)
{
    size_t offset;
    if (!str_is_utf8(content, &offset))
        return cli_complain(c, REFUSED, "byte %zu of the document is not UTF-8", offset);
    buf_put_byte(out, '{');
    put_text_member(out, "content", content);
    put_text_member(out, "description", argument_text(a, "description"));
    if (argument_given(a, "inactive")) put_raw_member(out, "is_active", STR("false"));
    if (argument_given(a, "active")) put_raw_member(out, "is_active", STR("true"));
    buf_put_byte(out, '}');
    return out->overflow ? cli_complain(c, REFUSED, "the document is too large") : DONE;
}

/* If a shell expanded *.yaml to two files, the first must not become the name of the second. */
static bool is_file_of_document(struct str word)
{
    return policy_name_of(word).size < word.size && access(word.bytes, F_OK) == 0;
}

static bool is_set(const struct arguments *a)
{
    bool names_folder = false;
    for (size_t i = 0; i < a->positional_count; i++)
        names_folder |= policy_is_folder(a->positionals[i]);
    return names_folder || a->positional_count > 2 || argument_given(a, "delete") ||
           (a->positional_count == 2 && is_file_of_document(argument_at(a, 0)));
}

static int policy_put(struct cli *c, const struct arguments *a)
{
    if (is_set(a)) return policy_put_set(c, a);
    struct str file = a->positional_count == 2 ? argument_at(a, 1) : argument_at(a, 0), content;
    struct str name = a->positional_count == 2 ? argument_at(a, 0) : policy_name_of(file);
    if (a->positional_count == 1 && str_equal(file, STR("-")))
        return cli_complain(c, USAGE, "standard input has no name: writ policy put NAME -");
    if (argument_given(a, "active") && argument_given(a, "inactive"))
        return cli_complain(c, USAGE, "--active and --inactive exclude each other");
    int code = file_text(c, file, LIMIT_POLICY_BODY_BYTES, &content);
    if (code != DONE) return code;
    struct buf body = cli_scratch(c, BODY_MAX);
    code = put_body(c, a, content, &body);
    if (code != DONE) return code;

    struct target target;
    struct reply reply;
    policy_target(c, &target, name, "");
    bool dry_run = argument_given(a, "dry-run");
    if (dry_run) target_query(&target, "dry_run", STR("true"));
    if (argument_given(a, "force")) target_query(&target, "force", STR("true"));
    struct request r = {.side = SIDE_PLATFORM,
                        .method = "PUT",
                        .target = target_text(&target),
                        .body = buf_view(&body),
                        .if_match = argument_text(a, "if-match"),
                        .if_none_match = argument_given(a, "new") ? STR("*") : (struct str){0}};
    code = cli_call(c, &r, &reply);
    if (code != DONE) return code;
    if (c->json)
        print_json(c, reply.body);
    else
        put_text(c, &reply, dry_run);
    policy_warn_dear(c, name, r.body);
    return DONE;
}

/* ---- get, list, versions ---- */

static int fetch(struct cli *c, const char *method, struct str name, const char *more,
                 struct str body, bool force, struct reply *reply)
{
    struct target target;
    policy_target(c, &target, name, more);
    if (force) target_query(&target, "force", STR("true"));
    struct request r = {
        .side = SIDE_PLATFORM, .method = method, .target = target_text(&target), .body = body};
    return cli_call(c, &r, reply);
}

static int not_a_version(struct cli *c, struct str word)
{
    return cli_complain(c, USAGE, "\"%.*s\" is not a version; writ policy versions NAME shows them",
                        STR_FORMAT(word));
}

static int policy_get(struct cli *c, const struct arguments *a)
{
    struct reply reply;
    struct buf more = cli_scratch(c, 64);
    struct str version = argument_at(a, 1);
    uint64_t number;
    if (!str_is_absent(version) && !str_to_u64(version, &number)) return not_a_version(c, version);
    if (!str_is_absent(version)) buf_printf(&more, "/versions/%llu", (unsigned long long)number);
    buf_put_byte(&more, '\0');
    int code = fetch(c, "GET", argument_at(a, 0), more.bytes, (struct str){0}, false, &reply);
    if (code != DONE) return code;
    if (c->json) {
        print_json(c, reply.body);
        return DONE;
    }
    /* The exact bytes of the document, so that a file of them can be put again as the same
     * version. Only on a terminal a missing end of line is added. */
    struct str content = json_text(reply.root, STR("content"));
    print_str(c->out, content);
    if (c->width > 0 && (content.size == 0 || content.bytes[content.size - 1] != '\n'))
        fputc('\n', c->out);
    if (reply.etag.size > 0 && c->width > 0)
        fprintf(c->err, "ETag: %.*s\n", STR_FORMAT(reply.etag));
    return DONE;
}

static struct str shortened_digest(struct str digest)
{
    return digest.size > 12 ? str_of(digest.bytes, 12) : digest;
}

static void add_policy(struct cli *c, struct table *t, const struct json *p)
{
    static const char *const members[] = {"name",       "version", "is_active",  "updated_at",
                                          "updated_by", "digest",  "description"};
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        struct str cell = member_shown(c, p, members[i]);
        table_add(t, strcmp(members[i], "digest") == 0 ? shortened_digest(cell) : cell);
    }
}

static int policy_list(struct cli *c, const struct arguments *a)
{
    static const char *const heads[] = {"NAME", "VERSION", "ACTIVE",       "UPDATED",
                                        "*BY",  "DIGEST",  "*DESCRIPTION", NULL};
    static const struct listing listing = {SIDE_PLATFORM, "policies", heads, add_policy, "500"};
    struct target target;
    policy_target(c, &target, (struct str){0}, "");
    return page_list(c, a, &target, &listing);
}

static void add_version(struct cli *c, struct table *t, const struct json *v)
{
    table_add(t, member_shown(c, v, "version"));
    table_add(t, member_shown(c, v, "created_at"));
    table_add(t, member_shown(c, v, "created_by"));
    table_add(t, member_shown(c, v, "format"));
    table_add(t, shortened_digest(member_shown(c, v, "digest")));
}

static int policy_versions(struct cli *c, const struct arguments *a)
{
    static const char *const heads[] = {"VERSION", "MADE", "*BY", "FORMAT", "DIGEST", NULL};
    static const struct listing listing = {SIDE_PLATFORM, "versions", heads, add_version, "500"};
    struct target target;
    policy_target(c, &target, argument_at(a, 0), "/versions");
    return page_list(c, a, &target, &listing);
}

/* ---- rollback, delete ---- */

static int policy_rollback(struct cli *c, const struct arguments *a)
{
    struct reply reply;
    struct buf body = cli_scratch(c, 64);
    uint64_t version;
    if (!str_to_u64(argument_at(a, 1), &version)) return not_a_version(c, argument_at(a, 1));
    buf_printf(&body, "{\"version\":%llu}", (unsigned long long)version);
    int code = fetch(c, "POST", argument_at(a, 0), "/rollback", buf_view(&body),
                     argument_given(a, "force"), &reply);
    if (code != DONE) return code;
    if (c->json)
        print_json(c, reply.body);
    else
        fprintf(c->out, "%s is now version %.*s, with the text of version %llu%s.\n",
                a->positionals[0], STR_FORMAT(member_shown(c, reply.root, "version")),
                (unsigned long long)version, in_force_shown(&reply));
    return DONE;
}

static int policy_delete(struct cli *c, const struct arguments *a)
{
    struct reply reply;
    int code = fetch(c, "DELETE", argument_at(a, 0), "", (struct str){0},
                     argument_given(a, "force"), &reply);
    if (code != DONE) return code;
    if (c->json)
        print_json(c, reply.body);
    else
        fprintf(c->out, "%s is deleted. Requests that only this policy allowed are denied now.\n",
                a->positionals[0]);
    return DONE;
}

/* ---- the rows ---- */

#define FORCE_FLAG                                                                                 \
    {                                                                                              \
        "force", NULL, "also if a rule then names a role that no document defines"                 \
    }

static const struct flag page_flags[] = {PAGE_FLAGS("500"), {NULL, NULL, NULL}};
static const struct flag put_flags[] = {
    {"description", "TEXT", "a description of the policy"},
    {"active", NULL, "put it in force"},
    {"inactive", NULL, "store it without putting it in force"},
    {"new", NULL, "only if no policy has that name"},
    {"if-match", "ETAG", "only if the policy still has this ETag"},
    {"delete", "NAMES", "also delete these (a,b), in the same change"},
    {"dry-run", NULL, "validate, and show what would change"},
    FORCE_FLAG,
    {NULL, NULL, NULL}};
static const struct flag force_flags[] = {FORCE_FLAG, {NULL, NULL, NULL}};

const struct command policy_commands[] = {
    {"policy", "put", "[NAME] FILE|DIR …", "put a document, or a set of them, in force",
     "FILE is YAML or JSON; - is standard input, which needs a NAME. Without NAME it is the file's name\n"
     "without its ending. A directory, or several files, are one change: all of it comes into force, or\n"
     "nothing. Documents that are not named stay; --delete takes some away in the same change.\n"
     "An invalid document changes nothing; every mistake is printed with line and column.",
     put_flags, 1, POSITIONALS_MAX, policy_put},
    {"policy", "get", "NAME [VERSION]", "print a document", NULL, NULL, 1, 2, policy_get},
    {"policy", "list", "", "show the documents of the tenant", NULL, page_flags, 0, 0, policy_list},
    {"policy", "check", "FILE|DIR …", "validate documents, without a platform",
     "Runs their tests, and warns of text that is legal but probably wrong. A directory is a whole set: a\n"
     "rule's role that none of its documents defines is an error. For single files it is a warning. Exit\n"
     "status 1 if a document is refused, with --strict also if one has a warning.",
     policy_check_flags, 1, POSITIONALS_MAX, policy_run_check},
    {"policy", "test", "FILE|DIR …", "run the documents' own tests, without a platform",
     "Each document's tests run with it alone. A directory stands for all documents in it and below.\n"
     "Warns of rules that apply to no test's request. Exit status 1 if a test fails.",
     policy_test_flags, 1, POSITIONALS_MAX, policy_run_test},
    {"policy", "diff", "OLD NEW --against FILE",
     "show which recorded requests changed policies would decide differently",
     "OLD and NEW are documents or directories of them. FILE has one request a line: events of the\n"
     "audit trail (decisions; others are skipped), or requests as they are sent:\n\n"
     "  writ audit query --kind decision --limit 100000 --json > corpus.jsonl\n"
     "  writ policy diff policies/ changed/ --against corpus.jsonl\n\n"
     "Decision, safe call and requested reviewers are compared. Limits are not counted. A record does not\n"
     "have a token's scope and approvals, so these are not evaluated. Where the outcome depends on masked\n"
     "values, the request is one that cannot be known. Exit status 1 if any decision would change or\n"
     "cannot be known, 2 if they cannot be compared.",
     policy_diff_flags, 2, 2, policy_run_diff},
    {"policy", "import", "--from lelu FILE", "turn another system's policies into a document",
     "Prints the document; nothing is put in force. From lelu's auth.yaml it takes\n\n"
     "  roles          allow and deny, as rules for people with that role\n"
     "  agent_scopes   inherits, deny and compute, as rules for that agent\n"
     "  constraints    the three confidence thresholds as a gate, max_refund_amount as a human_review\n"
     "  rules          match, decision, reason, safe_tool and safe_args\n\n"
     "It does not take: the members of roles (the file has none), can_delegate, the downgrade to reading\n"
     "(it becomes a deny), agents without a role, unknown members, anchors and aliases of YAML. A part\n"
     "that has no equal becomes stricter, never looser, with a comment (NOT TAKEN, CHECK).",
     policy_import_flags, 1, 1, policy_run_import},
    {"policy", "versions", "NAME", "show a document's history", NULL, page_flags, 1, 1,
     policy_versions},
    {"policy", "rollback", "NAME VERSION", "make the text of an old version the newest again",
     "An inactive policy stays inactive.", force_flags, 2, 2, policy_rollback},
    {"policy", "delete", "NAME", "take a document out of force; its history stays", NULL,
     force_flags, 1, 1, policy_delete},
    {"policy", "explain", "[ACTION]", "show why each rule applies or not, and what would allow it",
     "The engine evaluates the request without an effect. Values that are masked in records are masked\n"
     "here. For a condition the output has the parts that decided, with their values. Needs a key with\n"
     "policy_admin, auditor or admin.",
     ask_flags, 0, 1, policy_run_explain},
    {NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, NULL}};

/* policy_cost.c - warns of documents whose conditions cost more than a decision may.
 *
 * Decides the newest recorded requests with the documents that were put. What other documents cost
 * comes on top, so this finds the worst only. An engine may permit more (policy.steps); the command
 * line does not know its options. */
#include "cli/policy.h"

#include "base/limits.h"

enum { ARENA_FIRST = 64 << 10, ARENA_MOST = 16 << 20, DOCUMENTS_MOST = 1024 };

struct dear {
    struct cli *c;
    struct policy_set *set;
    struct arena arena; /* of one request */
    uint64_t requests, dear, most;
    struct str action, subject, trace; /* of the costliest */
};

static void decide(struct dear *d, const struct json *event)
{
    struct policy_recorded r;
    struct policy_outcome o;
    struct fault ignored;
    arena_reset(&d->arena);
    if (policy_recorded_read(event, &d->arena, &r, &ignored) != RECORDED_REQUEST) return;
    r.request.steps = POLICY_STEPS_MAX;
    policy_evaluate(d->set, &r.request, &d->arena, NULL, &o);
    d->requests++;
    d->dear += o.steps > POLICY_STEPS_DEFAULT;
    if (o.steps <= d->most) return;
    d->most = o.steps;
    d->action = member_shown(d->c, event, "action");
    d->subject = member_shown(d->c, event, "actor");
    if (d->subject.size == 0) d->subject = member_shown(d->c, event, "user_id");
    d->trace = member_shown(d->c, event, "trace_id");
}

/* The newest page of decisions. */
static void decide_recorded(struct dear *d)
{
    struct target target;
    struct reply reply;
    char limit[16];
    snprintf(limit, sizeof limit, "%d", LIMIT_PAGE);
    target_init(d->c, &target, "/api/v1/audit");
    target_query(&target, "kind", STR("decision"));
    target_query(&target, "limit", str_from(limit));
    target_tenant(&target, d->c);
    const struct request r = {.side = SIDE_PLATFORM,
                              .method = "GET",
                              .target = target_text(&target),
                              .quiet = true,
                              .may_overflow = true};
    if (cli_call(d->c, &r, &reply) != DONE || d->c->arena.overflow) return;
    const struct json *events = json_get(reply.root, STR("events"));
    if (!json_is_array(events)) return;
    for (const struct json *e = events->child; e != NULL; e = e->next) decide(d, e);
}

static bool load(const struct json *put, struct str name, struct policy_set_entry *to)
{
    struct policy_problems ignored;
    if (str_is_absent(name)) name = json_text(put, STR("name"));
    to->version = 1;
    return policy_load_untested(name, json_text(put, STR("content")), &to->document, &ignored) ==
           ERR_OK;
}

static struct policy_set *set_of(struct cli *c, const struct json *put, struct str name)
{
    struct policy_set_entry *entries =
        arena_array(&c->arena, struct policy_set_entry, DOCUMENTS_MOST);
    const struct json *list = json_get(put, STR("policies"));
    struct policy_set *set = NULL;
    struct fault ignored;
    size_t count = 0;
    if (entries == NULL) return NULL;
    if (!json_is_array(list)) {
        count += load(put, name, &entries[0]);
    } else {
        for (const struct json *one = list->child; one != NULL && count < DOCUMENTS_MOST;
             one = one->next)
            count += load(one, name, &entries[count]);
    }
    if (count > 0 && policy_set_create(entries, count, &set, &ignored) != ERR_OK) set = NULL;
    for (size_t i = 0; i < count; i++) policy_document_release(entries[i].document);
    return set;
}

void policy_warn_dear(struct cli *c, struct str name, struct str put)
{
    struct json_options options = {.depth_max = JSON_DEPTH_CAP, .nul_anywhere = true};
    struct dear d = {.c = c};
    struct json *root;
    struct fault ignored;
    if (json_read(put, &options, &c->arena, &root, &ignored) != ERR_OK) return;
    d.set = set_of(c, root, name);
    if (d.set == NULL) return;
    arena_init(&d.arena, ARENA_FIRST, ARENA_MOST);
    decide_recorded(&d);
    if (d.dear > 0)
        fprintf(c->err,
                "  warning: %llu of the newest %llu recorded requests cost more than %d steps with "
                "these documents: an engine denies them, unless its option policy.steps is "
                "higher. The costliest is %.*s by %.*s with %llu steps (writ audit trace %.*s)\n",
                (unsigned long long)d.dear, (unsigned long long)d.requests, POLICY_STEPS_DEFAULT,
                STR_FORMAT(d.action), STR_FORMAT(d.subject), (unsigned long long)d.most,
                STR_FORMAT(d.trace));
    arena_fini(&d.arena);
    policy_set_destroy(d.set);
}

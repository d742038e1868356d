/* set.c - `writ set`: the policies and keys in the store as a whole, on the platform's machine. */
#include "base/world.h"
#include "cli/key.h"
#include "store/set.h"

enum { LISTING_BYTES = 256 << 20 };

typedef enum err run_on_set(struct store *s, struct buf *out, struct fault *f);

static void print_keys(struct cli *c, const struct json *list)
{
    static const char *const heads[] = {"ROW", KEY_HEADS, NULL};
    struct table t;
    table_init(&t, &c->arena, heads);
    for (const struct json *k = list->count == 0 ? NULL : list->child; k != NULL; k = k->next) {
        table_add(&t, member_shown(c, k, "row"));
        key_add_cells(c, &t, k);
    }
    table_print(&t, c->out, c->width);
}

static void print_policies(struct cli *c, const struct json *list)
{
    static const char *const heads[] = {"ROW",      "TENANT",      "*POLICY", "VERSION",
                                        "IN FORCE", "*CHANGED BY", "DIGEST",  NULL};
    static const char *const members[] = {"row",       "tenant_id",  "name",  "version",
                                          "is_active", "updated_by", "digest"};
    struct table t;
    table_init(&t, &c->arena, heads);
    for (const struct json *p = list->count == 0 ? NULL : list->child; p != NULL; p = p->next)
        for (size_t i = 0; i < sizeof members / sizeof *members; i++)
            table_add(&t, member_shown(c, p, members[i]));
    table_print(&t, c->out, c->width);
}

static void print_missing(struct cli *c, const struct json *list)
{
    for (const struct json *m = list->count == 0 ? NULL : list->child; m != NULL; m = m->next) {
        struct str tenant = member_shown(c, m, "tenant_id");
        fprintf(c->out, "missing: %.*s %.*s%s%.*s\n", STR_FORMAT(member_shown(c, m, "kind")),
                STR_FORMAT(member_shown(c, m, "name")), tenant.size > 0 ? " of tenant " : "",
                STR_FORMAT(tenant));
    }
}

static int print_set(struct cli *c, struct str body, struct str *ret_trouble)
{
    struct json *root;
    struct fault f;
    if (json_read(body, NULL, &c->arena, &root, &f) != ERR_OK)
        return cli_complain_fault(c, REFUSED, &f);
    *ret_trouble = member_shown(c, root, "trouble");
    if (c->json) {
        print_json(c, body);
        return DONE;
    }
    print_keys(c, json_get(root, STR("keys")));
    fputc('\n', c->out);
    print_policies(c, json_get(root, STR("policies")));
    print_missing(c, json_get(root, STR("missing")));
    return DONE;
}

static enum err run_in_store(const struct data_place *at, bool writes, run_on_set *run,
                             struct buf *out, struct fault *f)
{
    struct store *s = NULL;
    struct pepper pepper;
    enum err err = pepper_read(at->pepper, &pepper, f);
    if (err == ERR_OK) err = store_open(at->store, writes, &s, f);
    if (err == ERR_OK) {
        store_share_pepper(s, &pepper);
        err = run(s, out, f);
    }
    memory_wipe(&pepper, sizeof pepper);
    store_close(s);
    return err;
}

static int with_set(struct cli *c, const struct arguments *a, bool writes, run_on_set *run,
                    struct str *ret_trouble)
{
    struct data_place at;
    struct fault f;
    struct buf out;
    int code = data_place_read(c, a, &at);
    if (code != DONE) return code;
    buf_init(&out, 64 << 10, LISTING_BYTES);
    enum err err = run_in_store(&at, writes, run, &out, &f);
    code = err == ERR_OK ? print_set(c, buf_view(&out), ret_trouble)
                         : cli_complain_fault(c, REFUSED, &f);
    buf_fini(&out);
    return code;
}

static int set_show_run(struct cli *c, const struct arguments *a)
{
    struct str trouble;
    int code = with_set(c, a, false, set_show, &trouble);
    if (code != DONE) return code;
    if (trouble.size > 0)
        return cli_complain(c, REFUSED, "the set is refused: %.*s", STR_FORMAT(trouble));
    fputs("Every row is as a platform has stored it.\n", c->err);
    return DONE;
}

static enum err adopt(struct store *s, struct buf *out, struct fault *f)
{
    const struct actor by = {.principal = STR("command-line"), .now_ms = world_now_ms()};
    return set_adopt(s, &by, out, f);
}

static int set_adopt_run(struct cli *c, const struct arguments *a)
{
    struct str trouble;
    int code = with_set(c, a, true, adopt, &trouble);
    if (code == DONE)
        fputs("These rows are valid now. The column ROW is what they were before.\n", c->err);
    return code;
}

static const struct flag set_flags[] = {
    {"data", "DIR", "the platform's data directory, with the pepper"},
    {"store", "URL", "the store is this PostgreSQL database (or SQLite file) instead"},
    {NULL, NULL, NULL}};

const struct command set_commands[] = {
    {"set", "show", "", "list the stored keys and policies, and the rows that are not as stored",
     "Works on the platform's machine, because it needs the pepper. ROW is good, changed, added or twice.\n"
     "Ends with an error if engines refuse the set. Changes nothing.",
     set_flags, 0, 0, set_show_run},
    {"set", "adopt", "", "make the stored keys and policies valid as they are now",
     "Needed once after an upgrade from a version without MACs, after a backup was restored, and after a\n"
     "row was corrected in the database. Run writ set show first: every key and policy that it lists\n"
     "becomes valid. A running platform notices it, and engines take the set.",
     set_flags, 0, 0, set_adopt_run},
    {NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, NULL}};

/* engine.c - `writ engine`: the platform's state of engines. */
#include "cli/cli.h"

/* ---- list ---- */

static const char list_text[] =
    "A node is current (it runs the newest revision of policies and keys), behind (an older one), silent\n"
    "(it has not asked for five minutes) or gone (not for a week; only positions of its journals are\n"
    "left). A revocation waits for nodes that are behind or silent, and names them. If a silent engine\n"
    "will not come back, writ engine forget NODE --force ends that. The key needs the role admin, and\n"
    "tenant *: writ key create --data DIR makes one on the platform's machine.";

static void add_engine(struct cli *c, struct table *t, const struct json *engine)
{
    const struct json *streams = json_get(engine, STR("streams"));
    const struct json *stream = json_is_array(streams) ? streams->child : NULL;
    do { /* a row for each stream; one row without any */
        static const char *const members[] = {"node", "state", "revision", "seen_at"};
        static const char *const of_stream[] = {"journal", "next_seq", "updated_at"};
        for (size_t i = 0; i < sizeof members / sizeof *members; i++)
            table_add(t, member_shown(c, engine, members[i]));
        for (size_t i = 0; i < sizeof of_stream / sizeof *of_stream; i++)
            table_add(t, stream == NULL ? (struct str){0} : member_shown(c, stream, of_stream[i]));
        if (stream != NULL) stream = stream->next;
    } while (stream != NULL);
}

static int engine_list(struct cli *c, const struct arguments *a)
{
    static const char *const heads[] = {"NODE",     "STATE",       "REVISION", "LAST SEEN",
                                        "*JOURNAL", "NEXT RECORD", "STORED",   NULL};
    static const struct listing listing = {SIDE_PLATFORM, "engines", heads, add_engine, "500"};
    struct target target;
    target_init(c, &target, "/api/v1/engines");
    return page_list(c, a, &target, &listing);
}

/* ---- forget ---- */

static const char forget_text[] =
    "An engine that has gone is named by each revocation for a week, because it may only be cut off.\n"
    "Forget it, and revocations no longer wait for it. If it asks again, it is known again.\n"
    "The command also removes the node's streams. A node has at most 64. Journal 0 is the stream of its\n"
    "engine. A client with an ingest key for the node can begin others. With 64 streams, an engine that\n"
    "begins its own is refused (node_full in its /healthz). Revoke that key first.\n"
    "Without --force, what had news within a day stays. With --journal, only that stream is removed.\n"
    "The records stay. An event audit.forgotten records it. If the stream of a running engine is\n"
    "removed, the engine sends the records that its journal still has again. The key needs the role\n"
    "admin, and tenant *.";

static int engine_forget(struct cli *c, const struct arguments *a)
{
    struct buf body = cli_scratch(c, 8 << 10);
    struct reply reply;
    buf_put_byte(&body, '{');
    put_text_member(&body, "node", argument_at(a, 0));
    put_text_member(&body, "journal", argument_text(a, "journal"));
    put_text_member(&body, "reason", argument_text(a, "reason"));
    if (argument_given(a, "force")) buf_put_literal(&body, ",\"force\":true");
    buf_put_byte(&body, '}');
    int code = cli_post(c, "/api/v1/audit/streams:forget", &body, &reply);
    if (code != DONE || c->json) return code;
    fprintf(c->out, "%llu streams of %.*s are forgotten; %llu with recent records are left.\n",
            (unsigned long long)json_u64(reply.root, STR("forgotten"), 0),
            STR_FORMAT(member_shown(c, reply.root, "node")),
            (unsigned long long)json_u64(reply.root, STR("kept"), 0));
    const struct json *engine = json_get(reply.root, STR("engine"));
    if (engine != NULL && engine->type == JSON_TRUE)
        fputs("Revocations no longer wait for it.\n", c->out);
    return DONE;
}

/* ---- trust ---- */

static const char trust_text[] =
    "An engine signs checkpoints of its records, so that an auditor can prove that none was changed or\n"
    "removed. It makes its key in its data directory: engine/evidence.key is the secret one, and\n"
    "engine/evidence.pub the public one, which this command registers. The platform never learns a key\n"
    "from the records. A registered key stays valid: if an engine has lost its key, register the new one,\n"
    "too. An event engine.trusted records it. Without --public-key the command lists the registered keys.\n"
    "The command needs the role admin, and tenant *.";

static void add_key(struct cli *c, struct table *t, const struct json *key)
{
    static const char *const members[] = {"node",       "journal",    "public_key",
                                          "created_at", "created_by", "is_valid"};
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        table_add(t, member_shown(c, key, members[i]));
    uint64_t from = json_u64(key, STR("distrusted_from"), 0);
    table_add(t, from == 0 ? STR("all")
                           : arena_printf(&c->arena, "before %llu", (unsigned long long)from));
}

static int engine_trust(struct cli *c, const struct arguments *a)
{
    static const char *const heads[] = {"NODE",          "JOURNAL", "PUBLIC KEY", "REGISTERED",
                                        "REGISTERED BY", "VALID",   "RECORDS",    NULL};
    struct buf body = cli_scratch(c, 8 << 10);
    struct reply reply;
    if (!argument_given(a, "public-key")) {
        struct request r = {
            .side = SIDE_PLATFORM, .method = "GET", .target = STR("/api/v1/audit/engine-keys")};
        int listed = cli_call(c, &r, &reply);
        if (listed == DONE) print_list(c, &reply, "engine_keys", heads, add_key);
        return listed;
    }
    if (!argument_given(a, "node"))
        return cli_complain(c, USAGE,
                            "--node is needed with --public-key: writ engine trust --help");
    buf_put_byte(&body, '{');
    put_text_member(&body, "node", argument_text(a, "node"));
    put_text_member(&body, "journal", argument_text(a, "journal"));
    put_text_member(&body, "public_key", argument_text(a, "public-key"));
    buf_put_byte(&body, '}');
    int code = cli_post(c, "/api/v1/audit/engine-keys", &body, &reply);
    if (code != DONE || c->json) return code;
    fprintf(c->out, "Checkpoints of %.*s count if this key has signed them.\n",
            STR_FORMAT(member_shown(c, reply.root, "node")));
    return DONE;
}

/* ---- distrust ---- */

static const char distrust_text[] =
    "The key of an engine was stolen. Its checkpoints count for the records that are stored now, and no\n"
    "longer for later ones: the platform refuses them, and writ audit verify names them.\n"
    "The engine makes another key if engine/evidence.key and evidence.pub are removed from its data\n"
    "directory before a restart; register it with writ engine trust. An event engine.distrusted records\n"
    "it. A key that was withdrawn cannot be registered again. The command needs the role admin, and\n"
    "tenant *.";

static int engine_distrust(struct cli *c, const struct arguments *a)
{
    static const char *const names[] = {"node", "journal", "public-key", "reason"};
    static const char *const members[] = {"node", "journal", "public_key", "reason"};
    struct buf body = cli_scratch(c, 8 << 10);
    struct reply reply;
    if (!argument_given(a, "node") || !argument_given(a, "public-key"))
        return cli_complain(c, USAGE,
                            "--node and --public-key are needed: writ engine trust lists the keys");
    buf_put_byte(&body, '{');
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        put_text_member(&body, members[i], argument_text(a, names[i]));
    buf_put_byte(&body, '}');
    int code = cli_post(c, "/api/v1/audit/engine-keys:distrust", &body, &reply);
    if (code != DONE || c->json) return code;
    fprintf(c->out, "This key of %.*s counts for the records before %llu only.\n",
            STR_FORMAT(member_shown(c, reply.root, "node")),
            (unsigned long long)json_u64(reply.root, STR("distrusted_from"), 0));
    return DONE;
}

static const struct flag distrust_flags[] = {
    {"node", "NAME", "the engine's node"},
    {"journal", "NAME", "its journal (default: 0, an engine's own)"},
    {"public-key", "KEY", "the registered key that counts no longer"},
    {"reason", "TEXT", "why, for the audit trail"},
    {NULL, NULL, NULL}};
static const struct flag trust_flags[] = {
    {"node", "NAME", "the engine's node"},
    {"journal", "NAME", "its journal (default: 0, an engine's own)"},
    {"public-key", "KEY", "what evidence.pub in the engine's data directory holds"},
    {NULL, NULL, NULL}};
static const struct flag list_flags[] = {PAGE_FLAGS("500"), {NULL, NULL, NULL}};
static const struct flag forget_flags[] = {
    {"journal", "NAME", "only this journal (an engine's own is 0)"},
    {"force", NULL, "also what had news within a day"},
    {"reason", "TEXT", "why, for the audit trail"},
    {NULL, NULL, NULL}};

const struct command engine_commands[] = {
    {"engine", "list", "", "show each node's state, positions and last news", list_text, list_flags,
     0, 0, engine_list},
    {"engine", "trust", "", "register the key with which an engine signs its records", trust_text,
     trust_flags, 0, 0, engine_trust},
    {"engine", "distrust", "", "withdraw the key of an engine for all later records", distrust_text,
     distrust_flags, 0, 0, engine_distrust},
    {"engine", "forget", "NODE", "no longer wait for a node, and remove its streams", forget_text,
     forget_flags, 1, 1, engine_forget},
    {NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, NULL}};

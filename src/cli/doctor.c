/* doctor.c - `writ doctor`: checks both programs and suggests actions.
 *
 * Each finding is one sentence that ends in an action. The command changes nothing. If it cannot
 * check something (no key, no right), a finding reports that. */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>

#include "access/key.h"
#include "base/world.h"
#include "cli/cli.h"

enum {
    CLOCK_SECONDS_MAX = 5,
    DISK_FREE_LEAST_PERCENT = 20,
    LEFT_HOURS_LEAST = 24,
    LAG_RECORDS_MAX = 10000
};
enum finding { FINE, NOTE, BAD };

struct visit {
    struct cli *c;
    struct buf json;
    size_t bad;
    bool reached[2];       /* by enum side */
    struct str metrics[2]; /* the scrape, or absent */
};

static const char *const program[] = {[SIDE_ENGINE] = "engine", [SIDE_PLATFORM] = "platform"};

/* ---- findings ---- */

static void found(struct visit *v, enum finding finding, const char *what, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static void found(struct visit *v, enum finding finding, const char *what, const char *format, ...)
{
    static const char *const words[] = {"ok", "note", "BAD"};
    struct arena *arena = &v->c->arena;
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int size = vsnprintf(NULL, 0, format, arguments), because = errno;
    char *bytes = size < 0 ? NULL : arena_bytes(arena, (size_t)size + 1);
    errno = because; /* %m */
    if (bytes != NULL) vsnprintf(bytes, (size_t)size + 1, format, again);
    va_end(again);
    va_end(arguments);
    struct str text = bytes == NULL ? STR("…") : str_from(bytes), shown = text_shown(arena, text);
    v->bad += finding == BAD;
    if (!v->c->json) {
        fprintf(v->c->out, "%-4s  %-9s %.*s\n", words[finding], what, STR_FORMAT(shown));
        return;
    }
    buf_put(&v->json, v->json.size > 0 ? STR(",{\"check\":") : STR("{\"check\":"));
    json_put_string(&v->json, str_from(what));
    put_raw_member(&v->json, "ok", finding == BAD ? STR("false") : STR("true"));
    put_text_member(&v->json, "text", str_is_utf8(text, &(size_t){0}) ? text : shown);
    buf_put_byte(&v->json, '}');
}

static int get(struct visit *v, enum side side, const char *path, bool without_key,
               struct reply *reply)
{
    struct target t;
    target_init(v->c, &t, path);
    if (!without_key) target_tenant(&t, v->c);
    struct request r = {.side = side,
                        .method = "GET",
                        .target = target_text(&t),
                        .without_key = without_key,
                        .quiet = true};
    return cli_call(v->c, &r, reply);
}

/* ---- the programs ---- */

static void look_at_clock(struct visit *v, enum side side, const struct reply *reply)
{
    if (reply->date.size == 0) return;
    int64_t theirs = (int64_t)(reply_now_ms(reply) / 1000), ours = (int64_t)(world_now_ms() / 1000);
    long long apart = llabs(theirs - ours);
    if (apart <= CLOCK_SECONDS_MAX)
        found(v, FINE, "clock", "%s and this machine agree on the time", program[side]);
    else
        found(v, BAD, "clock",
              "the %s's clock is %lld seconds %s this machine's: expiries and audit times will be "
              "wrong. Let both follow the same NTP servers",
              program[side], apart, theirs > ours ? "ahead of" : "behind");
}

static void look_at_checks(struct visit *v, enum side side, const struct json *checks)
{
    for (const struct json *k = json_is_object(checks) ? checks->child : NULL; k != NULL;
         k = k->next) {
        struct str value = value_shown(v->c, k);
        if (str_equal(value, STR("ok"))) continue;
        found(v, BAD, program[side],
              "its check `%.*s` fails: %.*s. See \"%s: %.*s\" in ops/runbook.md",
              STR_FORMAT(k->key), STR_FORMAT(value), program[side], STR_FORMAT(k->key));
    }
}

/* Policies in force that would be refused if they were put today. */
static void look_at_refusals(struct visit *v, const struct json *refused)
{
    const struct json *list = json_get(refused, STR("policies"));
    uint64_t count = json_u64(refused, STR("count"), 0), told = 0;
    for (const struct json *p = json_is_array(list) ? list->child : NULL; p != NULL; p = p->next) {
        found(
            v, NOTE, "policy",
            "%.*s is in force, and would be refused if it were put today: line %llu, %.*s: %.*s. "
            "Correct it before the next put; writ policy put NAME FILE --dry-run lists every problem",
            STR_FORMAT(member_shown(v->c, p, "policy")),
            (unsigned long long)json_u64(p, STR("line"), 0),
            STR_FORMAT(member_shown(v->c, p, "path")),
            STR_FORMAT(member_shown(v->c, p, "problem")));
        told++;
    }
    if (count > told)
        found(v, NOTE, "policy",
              "%llu more policies would be refused; the platform's log names them",
              (unsigned long long)(count - told));
}

/* Since when each stream is anchored, and up to which record. What fails is the check `anchors`. */
static void look_at_anchors(struct visit *v, const struct json *anchors)
{
    for (const struct json *a = json_is_array(anchors) ? anchors->child : NULL; a != NULL;
         a = a->next) {
        const struct json *trees = json_get(a, STR("anchored"));
        struct str name = member_shown(v->c, a, "name"), kind = member_shown(v->c, a, "kind");
        for (const struct json *t = json_is_array(trees) ? trees->child : NULL; t != NULL;
             t = t->next) {
            struct str node = member_shown(v->c, t, "node"),
                       journal = member_shown(v->c, t, "journal");
            unsigned long long seq = json_u64(t, STR("anchored_seq"), 0),
                               newest = json_u64(t, STR("checkpoint_seq"), 0);
            if (seq == 0)
                found(v, NOTE, "anchor", "%.*s (%.*s) has no checkpoint of %.*s/%.*s yet",
                      STR_FORMAT(name), STR_FORMAT(kind), STR_FORMAT(node), STR_FORMAT(journal));
            else
                found(v, FINE, "anchor",
                      "%.*s (%.*s) has %.*s/%.*s up to record %llu since %.*s; the newest "
                      "checkpoint is of record %llu",
                      STR_FORMAT(name), STR_FORMAT(kind), STR_FORMAT(node), STR_FORMAT(journal),
                      seq, STR_FORMAT(member_shown(v->c, t, "anchored_at")), newest);
        }
    }
}

static void look_at_program(struct visit *v, enum side side)
{
    struct reply reply;
    struct str address = side_address(v->c, side);
    int code = get(v, side, "/healthz", true, &reply);
    v->reached[side] = reply.status != 0;
    if (!v->reached[side]) {
        found(v, BAD, program[side],
              "nothing answers at %.*s (%s). Start writ-%s there, or give its address with "
              "--%s URL",
              STR_FORMAT(address), reply.fault.text, program[side], program[side]);
        return;
    }
    struct str service = member_shown(v->c, reply.root, "service"),
               version = member_shown(v->c, reply.root, "version");
    if (code != DONE || service.size == 0) {
        found(v, BAD, program[side], "the program at %.*s is not writ-%s (status %d). Check --%s",
              STR_FORMAT(address), program[side], reply.status, program[side]);
        return;
    }
    bool right = str_find(service, '-') == service.size ||
                 str_equal(str_skip(service, str_find(service, '-') + 1), str_from(program[side]));
    if (!right)
        found(v, NOTE, program[side],
              "%.*s answers at %.*s: it forwards the requests for the other program",
              STR_FORMAT(service), STR_FORMAT(address));
    bool well = str_equal(member_shown(v->c, reply.root, "status"), STR("ok"));
    found(v, FINE, program[side], "%.*s %.*s answers at %.*s%s", STR_FORMAT(service),
          STR_FORMAT(version), STR_FORMAT(address), well ? ", and is well" : "");
    look_at_checks(v, side, json_get(reply.root, STR("checks")));
    look_at_anchors(v, json_get(reply.root, STR("anchors")));
    const struct json *refused = json_get(reply.root, STR("policies_refused_when_put"));
    if (json_is_object(refused)) look_at_refusals(v, refused);
    look_at_clock(v, side, &reply);
    code = get(v, side, "/readyz", true, &reply);
    if (code != DONE)
        found(v, BAD, program[side], "it is not ready: %.*s",
              STR_FORMAT(member_shown(v->c, reply.root, "error")));
}

/* ---- the key ---- */

static void look_at_key(struct visit *v)
{
    struct str text = environment_value(v->c, "WRIT_KEY"), key;
    if (str_is_absent(v->c->key_file) && str_is_absent(text)) {
        found(
            v, NOTE, "key",
            "no API key is given, so nothing more can be checked. Put one in WRIT_KEY or --key-file");
        return;
    }
    if (cli_credential(v->c, &key) != DONE) { /* it has printed the reason */
        found(v, BAD, "key", "the API key cannot be used; see above");
        return;
    }
    bool is_token = is_token_text(key);
    if (is_token)
        found(v, NOTE, "key",
              "the credential is a token, which may not read metrics. Use a key with the "
              "role metrics or admin");
    for (int side = 0; side < 2; side++) {
        struct reply reply;
        if (!v->reached[side] || (is_token && side == SIDE_PLATFORM)) continue;
        get(v, (enum side)side, "/metrics", false, &reply);
        struct str code = member_shown(v->c, reply.root, "code");
        if (reply.status == 200) v->metrics[side] = reply.body;
        if (reply.status == 401)
            found(v, BAD, "key",
                  "the %s refuses the key (%.*s). Make one with writ key create, and check that "
                  "both programs have the same pepper file",
                  program[side], STR_FORMAT(code));
        else if (reply.status == 200 || reply.status == 403)
            found(v, FINE, "key", "the %s knows the %s", program[side], is_token ? "token" : "key");
        if (reply.status == 403 && !is_token)
            found(
                v, NOTE, "key",
                "it may not read the %s's metrics (%.*s), so disk and lag are not checked. Use a key "
                "with the role metrics or admin",
                program[side], STR_FORMAT(code));
    }
}

/* ---- figures ---- */

static void look_at_engine_figures(struct visit *v)
{
    struct str scrape = v->metrics[SIDE_ENGINE];
    double lag, left_seconds, full, stale, clashes;
    if (str_is_absent(scrape)) return;
    if (metric_find(scrape, "writ_engine_journal_full", &full) && full != 0)
        found(v, BAD, "disk",
              "the engine's journal is full, and every decision is refused. Free space on its file "
              "system; the engine then continues by itself");
    if (metric_find(scrape, "writ_engine_journal_left_seconds", &left_seconds) &&
        left_seconds > 0) {
        bool low = left_seconds < LEFT_HOURS_LEAST * 3600.0;
        found(v, low ? BAD : FINE, "disk",
              "at the present rate the engine's disk lasts %.0f hours%s", left_seconds / 3600,
              low ? ". Use a larger disk, or lower journal.keep" : "");
    }
    if (metric_find(scrape, "writ_engine_publish_lag_records", &lag)) {
        bool high = lag > LAG_RECORDS_MAX;
        found(v, high ? BAD : FINE, "lag", "%.0f records wait for the platform%s", lag,
              high ? ". If the number grows, check the platform's log and its disk" : "");
    }
    if (metric_find(scrape, "writ_engine_publish_clashes_total", &clashes) && clashes > 0)
        found(
            v, BAD, "records",
            "the platform has other records under the numbers of %.0f records of this engine, and quarantined these. "
            "Check that no other engine has, or had, its node name or a copy of its data, and that its `node` has "
            "not changed",
            clashes);
    if (metric_find(scrape, "writ_engine_bundle_stale", &stale) && stale != 0)
        found(
            v, BAD, "bundle",
            "the engine gets no policies from the platform and decides by the ones that it has. Its check "
            "`feed` has the reason");
}

static void look_at_revisions(struct visit *v)
{
    double engine, platform;
    if (str_is_absent(v->metrics[0]) || str_is_absent(v->metrics[1])) return;
    if (!metric_find(v->metrics[SIDE_ENGINE], "writ_engine_bundle_revision", &engine) ||
        !metric_find(v->metrics[SIDE_PLATFORM], "writ_platform_bundle_revision", &platform))
        return;
    if (engine == platform)
        found(v, FINE, "bundle", "the engine has the newest policies and keys (revision %.0f)",
              engine);
    else if (engine > platform)
        found(v, BAD, "bundle",
              "the engine has revision %.0f of policies and keys, the platform only %.0f. If this "
              "stays, the platform's database is an older one: put the policies "
              "again, and repeat the revocations since then",
              engine, platform);
    else
        found(
            v, BAD, "bundle",
            "the engine has revision %.0f of policies and keys, the platform %.0f. It follows within "
            "a second; if this stays, look at the engine's log",
            engine, platform);
}

/* ---- a data directory on this machine ---- */

static void look_at_pepper(struct visit *v, const char *data)
{
    struct buf path = cli_scratch(v->c, strlen(data) + 16);
    struct pepper pepper;
    struct fault f;
    buf_printf(&path, "%s/pepper", data);
    enum err e = pepper_read(path.bytes, &pepper, &f);
    memory_wipe(&pepper, sizeof pepper);
    if (e == ERR_OK)
        found(v, FINE, "pepper", "%s is there, and only its owner can read it", path.bytes);
    else
        found(v, BAD, "pepper",
              "%s. Both programs need the same pepper; writ key create --data makes it", f.text);
}

static void look_at_data(struct visit *v, const char *data)
{
    struct statvfs fs;
    struct stat s;
    if (stat(data, &s) != 0 || !S_ISDIR(s.st_mode)) {
        found(v, BAD, "data", "%s is not a directory that can be read: %m", data);
        return;
    }
    if ((s.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        found(v, BAD, "data",
              "other users can replace files in %s, the pepper among them. chmod 700 it", data);
    else if ((s.st_mode & (S_IRWXG | S_IRWXO)) != 0)
        found(v, NOTE, "data",
              "other users can list %s. They cannot read its files; chmod 700 is safer", data);
    look_at_pepper(v, data);
    if (statvfs(data, &fs) != 0 || fs.f_blocks == 0) return;
    /* Counted as df does: the share of used and usable space, without a quota or a reserve. */
    double used = (double)(fs.f_blocks - fs.f_bfree), room = (double)fs.f_bavail;
    unsigned percent = (unsigned)(room * 100 / (used + room > 0 ? used + room : 1));
    bool low = percent < DISK_FREE_LEAST_PERCENT;
    found(v, low ? BAD : FINE, "disk", "%u %% of the file system of %s is free%s", percent, data,
          low ? ". At 5 % decisions are refused: make room" : "");
}

/* ---- the command ---- */

static int doctor(struct cli *c, const struct arguments *a)
{
    if (a->positional_count > 0) return hook_doctor(c, a);
    struct visit v = {.c = c};
    buf_init(&v.json, 0, 1 << 20);
    look_at_program(&v, SIDE_ENGINE);
    look_at_program(&v, SIDE_PLATFORM);
    look_at_key(&v);
    look_at_engine_figures(&v);
    look_at_revisions(&v);
    if (argument_given(a, "data")) look_at_data(&v, argument_text(a, "data").bytes);

    bool none = !v.reached[SIDE_ENGINE] && !v.reached[SIDE_PLATFORM];
    if (c->json)
        fprintf(c->out, "{\"ok\":%s,\"checks\":[%.*s]}\n", v.bad == 0 ? "true" : "false",
                STR_FORMAT(buf_view(&v.json)));
    else if (v.bad == 0)
        fputs("All is well.\n", c->out);
    else
        fprintf(c->out, "%zu thing%s to look at.\n", v.bad, v.bad == 1 ? "" : "s");
    buf_fini(&v.json);
    return none ? UNREACHABLE : v.bad > 0 ? REFUSED : DONE;
}

static const struct flag doctor_flags[] = {
    {"data", "DIR", "check this data directory of the platform as well"}, {NULL, NULL, NULL}};

const struct command doctor_commands[] = {
    {NULL, "doctor", "[hook AGENT]",
     "check both programs, the key, clocks, disk and lag, and suggest actions",
     "A key with the role admin allows the most checks. writ doctor hook AGENT checks the installed\n"
     "hook of a coding agent, with a call that has to be denied (writ-hook AGENT --check).",
     doctor_flags, 0, 2, doctor},
    {NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, NULL}};

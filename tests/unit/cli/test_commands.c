/* The commands through their public door: words in, request out, answer told, exit status. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "access/key.h"
#include "base/limits.h"
#include "unit/cli/rig.h"

/* ---- words ---- */

static void help_is_printed_for_all_for_groups_and_for_commands(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    assert_int_equal(RUN(r, "--help"), DONE);
    assert_has(r->out, "policy rollback");
    assert_has(r->out, "never written on a command line");
    assert_int_equal(RUN(r, "key", "--help"), DONE);
    assert_has(r->out, "key rotate");
    assert_null(strstr(r->out, "policy put"));
    assert_int_equal(RUN(r, "key", "create", "--help"), DONE);
    assert_has(r->out, "--owner OWNER");
    assert_int_equal(RUN(r, "help", "audit", "query"), DONE);
    assert_has(r->out, "--decision WORD");
    assert_int_equal(RUN(r, "help", "help"), DONE);
    assert_has(r->out, "Usage: writ COMMAND");
    assert_int_equal(RUN(r, "authorize", "-h"), DONE);
    assert_has(r->out, "--acting-for NAME");
    assert_int_equal(RUN(r, "--version"), DONE);
    assert_has(r->out, "writ 0.");
    assert_int_equal(peer_request_count(r->peer), 0);
    rig_destroy(r);
}

static void every_help_line_fits_a_terminal(void **state)
{
    (void)state;
    for (size_t i = 0; command_at(i) != NULL; i++) {
        char *text;
        size_t size;
        FILE *out = open_memstream(&text, &size);
        help_command(out, command_at(i));
        fclose(out);
        for (struct str rest = str_of(text, size), line; str_split(&rest, '\n', &line);)
            if (text_columns(line) > 100) fail_msg("too wide: %.*s", STR_FORMAT(line));
        free(text);
    }
}

static void a_command_line_that_makes_no_sense_is_told_what_would(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    assert_int_equal(rig_run(r, false, NULL), USAGE);
    assert_has(r->err, "Usage: writ COMMAND");
    assert_int_equal(RUN(r, "polcy", "list"), USAGE);
    assert_has(r->err, "did you mean writ policy?");
    assert_int_equal(RUN(r, "policy", "lst"), USAGE);
    assert_has(r->err, "did you mean writ policy list?");
    assert_int_equal(RUN(r, "frobnicate"), USAGE);
    assert_has(r->err, "writ --help lists all");
    assert_int_equal(RUN(r, "policy", "list", "--jsn"), USAGE);
    assert_has(r->err, "did you mean --json?");
    assert_int_equal(RUN(r, "policy", "list", "more"), USAGE);
    assert_has(r->err, "one word too many");
    assert_int_equal(RUN(r, "key", "revoke", ""), USAGE);
    assert_has(r->err, "an argument is empty: writ key revoke ID");
    assert_int_equal(RUN(r, "policy", "rollback", "x"), USAGE);
    assert_has(r->err, "writ policy rollback NAME VERSION");
    assert_int_equal(RUN(r, "audit", "query", "--actor"), USAGE);
    assert_has(r->err, "--actor needs a value");
    assert_int_equal(RUN(r, "audit", "query", "--actor", "--json"), USAGE);
    assert_int_equal(RUN(r, "audit", "query", "--actor", "a", "--actor=b"), USAGE);
    assert_has(r->err, "given twice");
    assert_int_equal(RUN(r, "policy", "list", "--json=yes"), USAGE);
    assert_has(r->err, "takes no value");
    assert_int_equal(RUN(r, "policy", "list", "-v"), USAGE);
    assert_has(r->err, "two dashes");
    assert_int_equal(peer_request_count(r->peer), 0);
    rig_destroy(r);
}

static void a_program_is_where_its_options_variable_names_it(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    peer_will_answer(r->peer, 200, NULL, "{\"policies\":[],\"count\":0,\"next_cursor\":0}");
    snprintf(r->engine, sizeof r->engine, "WRIT_PLATFORM=http://127.0.0.1:1"); /* not read */
    assert_int_equal(RUN(r, "policy", "list"), DONE);
    assert_string_equal(r->err, "");
    snprintf(r->engine, sizeof r->engine, "WRIT_ENGINE=%s", r->peer->address);
    snprintf(r->platform, sizeof r->platform, "WRIT_PLATFORM=%s", r->peer->address);
    assert_int_equal(RUN(r, "policy", "list"), DONE);
    assert_has(r->err, "WRIT_ENGINE is now called WRIT_ENGINE_URL: rename it");
    assert_has(r->err, "WRIT_PLATFORM is now called WRIT_PLATFORM_URL: rename it");
    assert_int_equal(RUN(r, "policy", "list", "--platform", "http://127.0.0.1:1"), UNREACHABLE);
    assert_null(strstr(r->err, "WRIT_PLATFORM is now"));
    assert_int_equal(peer_request_count(r->peer), 2);
    rig_destroy(r);
}

static void a_word_may_begin_with_dashes_where_it_is_said_to_be_one(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    peer_will_answer(r->peer, 200, NULL, "{\"success\":true}");
    assert_int_equal(RUN(r, "actor", "suspend", "--", "--odd"), DONE);
    assert_has(peer_request(r->peer, 0), "POST /v1/actors/--odd/suspend HTTP");
    assert_int_equal(RUN(r, "actor", "suspend", "--reason", "-5 to go", "--", "-h"), DONE);
    assert_has(peer_request(r->peer, 1), "POST /v1/actors/-h/suspend HTTP");
    assert_string_equal(body_of(r, 1), "{\"reason\":\"-5 to go\"}");
    rig_destroy(r);
}

static void more_words_than_there_is_room_for_are_refused(void **state)
{
    (void)state;
    char *argv[POSITIONALS_MAX + 4], *environment[] = {NULL}, *text;
    size_t size;
    for (size_t i = 0; i < sizeof argv / sizeof *argv; i++)
        argv[i] = (char *)(uintptr_t) "/nowhere.yaml";
    argv[1] = (char *)(uintptr_t) "policy";
    argv[2] = (char *)(uintptr_t) "check";
    FILE *out = open_memstream(&text, &size);
    assert_int_equal(cli_run(POSITIONALS_MAX + 4, argv, environment, out, out), USAGE);
    fclose(out);
    assert_has(text, "more than 64 words");
    free(text);
}

static void every_command_acts_in_the_tenant_that_is_named(void **state)
{
    (void)state;
    static const char *const commands[][4] = {{"policy", "list"},
                                              {"policy", "get", "p"},
                                              {"policy", "versions", "p"},
                                              {"policy", "rollback", "p", "1"},
                                              {"policy", "delete", "p"},
                                              {"policy", "explain", "x"},
                                              {"authorize", "x"},
                                              {"queue", "list"},
                                              {"queue", "show", "r"},
                                              {"queue", "wait", "r"},
                                              {"queue", "approve", "r"},
                                              {"queue", "deny", "r"},
                                              {"queue", "cancel", "r"},
                                              {"queue", "watch", "--once"},
                                              {"token", "list"},
                                              {"token", "revoke", "t"},
                                              {"actor", "suspend", "a"},
                                              {"actor", "resume", "a"},
                                              {"actor", "list"},
                                              {"audit", "query"},
                                              {"audit", "trace", "t"},
                                              {"audit", "export"},
                                              {"key", "list"},
                                              {"key", "revoke", "k"},
                                              {"key", "rotate", "k"}};
    struct rig *r = rig_create();
    peer_will_answer(r->peer, 200, NULL, "{}");
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        rig_run(r, false, "--tenant", "acme", commands[i][0], commands[i][1], commands[i][2],
                commands[i][3], NULL);
        const char *line = peer_request(r->peer, i), *query = strstr(line, "tenant_id=acme");
        if (query == NULL || query > strstr(line, "\r\n"))
            fail_msg("writ %s %s: %.80s", commands[i][0], commands[i][1], line);
    }
    rig_destroy(r);
}

static void a_list_that_goes_on_says_how_to_see_more(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    peer_will_answer(
        r->peer, 200, NULL,
        "{\"policies\":[{\"name\":\"base\",\"digest\":\"0123456789abcdef\"}],\"count\":1,\"next_cursor\":7}");
    assert_int_equal(RUN(r, "policy", "list"), DONE);
    assert_has(peer_request(r->peer, 0), "GET /api/v1/policies?limit=500 HTTP/1.1\r\n");
    assert_has(r->out, "base");
    assert_has(r->out, "0123456789ab ");
    assert_string_equal(r->err, "More: --cursor 7\n");
    assert_int_equal(RUN(r, "policy", "list", "--limit", "3", "--cursor", "7", "--json"), DONE);
    assert_has(peer_request(r->peer, 1), "GET /api/v1/policies?limit=3&cursor=7 HTTP/1.1\r\n");
    assert_has(r->out, "\"next_cursor\":7}\n");
    assert_string_equal(r->err, "");
    peer_will_answer(
        r->peer, 200, NULL,
        "{\"versions\":[{\"version\":9,\"created_by\":\"ann\"}],\"count\":1,\"next_cursor\":8}");
    assert_int_equal(RUN(r, "policy", "versions", "base"), DONE);
    assert_has(peer_request(r->peer, 2),
               "GET /api/v1/policies/base/versions?limit=500 HTTP/1.1\r\n");
    assert_has(r->out, "ann");
    assert_string_equal(r->err, "More: --cursor 8\n");
    rig_destroy(r);
}

static void a_key_on_the_command_line_is_refused_with_the_reason(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    assert_int_equal(RUN(r, "policy", "list", "--key", "wk_x"), USAGE);
    assert_has(r->err, "where other users of the machine can read it");
    assert_int_equal(RUN(r, "--key=wk_x", "policy", "list"), USAGE);
    assert_has(r->err, "WRIT_KEY");
    rig_destroy(r);
}

static void without_a_key_nothing_is_asked(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    assert_int_equal(RUN_WITHOUT_KEY(r, "policy", "list"), USAGE);
    assert_has(r->err, "put one in WRIT_KEY");
    r->key[20] ^= 1; /* a slip of the finger: the sum at its end does not match */
    assert_int_equal(RUN(r, "policy", "list"), USAGE);
    assert_has(r->err, "holds no valid API key or token");
    assert_int_equal(peer_request_count(r->peer), 0);
    rig_destroy(r);
}

static void a_key_file_is_used_but_not_where_others_can_read_it(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    char path[128];
    snprintf(path, sizeof path, "%s/key", r->peer->folder);
    FILE *file = fopen(path, "w");
    fprintf(file, "%s\r\n", r->key + 9);
    fclose(file);
    peer_will_answer(r->peer, 200, NULL, "{\"policies\":[]}");
    for (mode_t mode = 0640; mode != 0; mode = mode == 0640 ? 0604 : 0) {
        chmod(path, mode);
        assert_int_equal(RUN_WITHOUT_KEY(r, "policy", "list", "--key-file", path), USAGE);
        assert_has(r->err, "chmod 600");
    }
    chmod(path, 0600);
    assert_int_equal(RUN_WITHOUT_KEY(r, "--key-file", path, "policy", "list"), DONE);
    assert_has(peer_request(r->peer, 0), r->key + 9);
    unlink(path);
    rig_destroy(r);
}

static void a_program_that_is_not_there_is_status_three(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    assert_int_equal(RUN(r, "policy", "list", "--platform", "unix:/nowhere/socket"), UNREACHABLE);
    assert_has(r->err, "writ-platform at unix:/nowhere/socket cannot be reached");
    assert_int_equal(RUN(r, "policy", "list", "--platform", "ftp://x"), USAGE);
    rig_destroy(r);
}

static void what_was_asked_and_not_answered_may_have_been_done(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    peer_will_answer(r->peer, 0, NULL, NULL);
    assert_int_equal(RUN(r, "key", "create", "--name", "n", "--owner", "o", "--roles", "agent"),
                     UNREACHABLE);
    assert_has(
        r->err,
        " received the request and has not answered: the peer closed the connection before its answer ended. It may have done the work");
    assert_int_equal(RUN(r, "key", "list"), UNREACHABLE);
    assert_has(r->err,
               " cannot be reached: the peer closed the connection before its answer ended\n");
    assert_int_equal(RUN(r, "key", "create", "--name", "n", "--owner", "o", "--roles", "agent",
                         "--platform", "unix:/nowhere/socket"),
                     UNREACHABLE);
    assert_has(r->err, " cannot be reached: No such file");
    rig_destroy(r);
}

static void a_refusal_is_told_in_the_programs_own_words(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    peer_will_answer(r->peer, 403, NULL,
                     "{\"error\":\"the key has no role for this\",\"code\":\"missing_role\"}");
    assert_int_equal(RUN(r, "policy", "list"), REFUSED);
    assert_string_equal(r->err, "writ: the key has no role for this (403 missing_role)\n");
    assert_string_equal(r->out, "");
    assert_int_equal(RUN(r, "policy", "list", "--json"), REFUSED);
    assert_has(r->out, "\"code\":\"missing_role\"");
    rig_destroy(r);
}

static void what_is_no_answer_of_ours_is_no_success(void **state)
{
    (void)state;
    static const char *const bodies[] = {"", "<html>Welcome</html>", "[]", "\"ok\""};
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        struct rig *r = rig_create();
        peer_will_answer(r->peer, 200, NULL, bodies[i]);
        assert_int_equal(RUN(r, "actor", "suspend", "bot"), REFUSED);
        assert_has(r->err, "is not writ-engine");
        assert_string_equal(r->out, "");
        assert_int_equal(RUN(r, "key", "revoke", "key_1"), REFUSED);
        assert_has(r->err, "is not writ-platform");
        assert_string_equal(r->out, "");
        assert_int_equal(RUN(r, "policy", "list", "--json"), REFUSED);
        assert_string_equal(r->out, "");
        rig_destroy(r);
    }
}

static void a_gateways_page_is_not_printed_as_json(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    peer_will_answer(r->peer, 502, NULL, "<html>Bad Gateway</html>");
    assert_int_equal(RUN(r, "policy", "list", "--json"), REFUSED);
    assert_has(r->err, "writ-platform answered 502");
    assert_string_equal(r->out, "");
    rig_destroy(r);
}

/* ---- authorize ---- */

#define ALLOW                                                                                      \
    "{\"decision\":\"allow\",\"rule\":\"allow:r\",\"reason\":\"why not\",\"trace_id\":\"t1\",\"policy_name\":\"p\",\"policy_version\":3}"

static void the_agent_form_writes_snake_case_and_keeps_args_as_typed(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    peer_will_answer(r->peer, 200, NULL, ALLOW);
    assert_int_equal(RUN(r, "authorize", "pay", "--actor", "bot", "--args",
                         "{\"b\": 1.0, \"a\":[]}", "--confidence", "0.90", "--acting-for", "ann",
                         "--scope", "pay get_*", "--resource", "invoice:1", "--context", "late",
                         "--trace-id", "t1"),
                     DONE);
    assert_has(peer_request(r->peer, 0), "POST /v1/agent/authorize HTTP/1.1\r\n");
    assert_has(peer_request(r->peer, 0), "Content-Type: application/json\r\n");
    assert_string_equal(body_of(r, 0),
                        "{\"action\":\"pay\",\"actor\":\"bot\",\"resource\":\"invoice:1\","
                        "\"args\":{\"b\": 1.0, \"a\":[]},\"context\":\"late\",\"confidence\":0.90,"
                        "\"acting_for\":\"ann\",\"scope\":\"pay get_*\",\"trace_id\":\"t1\"}");
    assert_has(r->out, "allow\n");
    assert_has(r->out, "reason        why not\n");
    assert_has(r->out, "policy        p, version 3\n");
    rig_destroy(r);
}

static void the_tool_form_puts_its_extras_into_the_context(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    peer_will_answer(r->peer, 200, NULL, ALLOW);
    assert_int_equal(RUN(r, "authorize", "--tool", "pay", "--context", "{\"why\":\"x\"}",
                         "--confidence", "1", "--acting-for", "ann", "--tenant", "acme"),
                     DONE);
    assert_has(peer_request(r->peer, 0), "POST /api/v1/authorize?tenant_id=acme HTTP/1.1\r\n");
    assert_string_equal(
        body_of(r, 0),
        "{\"tool\":\"pay\",\"context\":{\"why\":\"x\",\"confidence\":1,\"actingFor\":\"ann\"}}");
    assert_int_equal(RUN(r, "authorize", "--tool", "pay", "--context", "plain"), DONE);
    assert_string_equal(body_of(r, 1), "{\"tool\":\"pay\",\"context\":\"plain\"}");
    assert_int_equal(
        RUN(r, "authorize", "--tool", "pay", "--context", "plain", "--confidence", "1"), USAGE);
    assert_has(r->err, "must be a JSON object");
    rig_destroy(r);
}

static void the_user_form_is_for_people(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    peer_will_answer(r->peer, 200, NULL, ALLOW);
    assert_int_equal(RUN(r, "authorize", "--user", "sam@x", "--action", "view", "--dry-run"), DONE);
    assert_has(peer_request(r->peer, 0), "POST /v1/authorize?dry_run=true HTTP/1.1\r\n");
    assert_string_equal(body_of(r, 0), "{\"user_id\":\"sam@x\",\"action\":\"view\"}");
    assert_int_equal(RUN(r, "authorize", "--user", "sam@x", "view", "--confidence", "1"), USAGE);
    assert_int_equal(RUN(r, "authorize", "--user", "sam@x", "view", "--scope", "view"), USAGE);
    assert_int_equal(RUN(r, "authorize", "--user", "sam@x", "--tool", "view"), USAGE);
    rig_destroy(r);
}

static void only_a_plain_allow_is_status_zero(void **state)
{
    (void)state;
    static const char *const others[] = {"deny", "human_review", "compute", ""};
    for (size_t i = 0; i < 4; i++) {
        struct rig *r = rig_create();
        char answer[96];
        snprintf(answer, sizeof answer, "{\"decision\":\"%s\"}", others[i]);
        peer_will_answer(r->peer, 200, NULL, answer);
        assert_int_equal(RUN(r, "authorize", "x"), REFUSED);
        rig_destroy(r);
    }
}

static void bad_args_are_refused_before_anything_is_sent(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    static const char *const wrong[][2] = {
        {"--args", "{"},          {"--args", "[1]"},     {"--args", "{\"a\":1,\"a\":2}"},
        {"--args", "@/nowhere"},  {"--confidence", "2"}, {"--confidence", "x"},
        {"--confidence", "0.5,"}, {"--context", "{x}"}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(RUN(r, "authorize", "x", wrong[i][0], wrong[i][1]), USAGE);
        assert_true(strlen(r->err) > 10);
    }
    assert_int_equal(RUN(r, "authorize"), USAGE);
    assert_int_equal(RUN(r, "authorize", "a", "--action", "b"), USAGE);
    assert_int_equal(peer_request_count(r->peer), 0);
    rig_destroy(r);
}

static void args_may_come_from_a_file(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    char path[128], at[136];
    snprintf(path, sizeof path, "%s/args", r->peer->folder);
    snprintf(at, sizeof at, "@%s", path);
    FILE *file = fopen(path, "w");
    fputs("{\"amount\": 12}", file);
    fclose(file);
    peer_will_answer(r->peer, 200, NULL, ALLOW);
    assert_int_equal(RUN(r, "authorize", "x", "--args", at), DONE);
    assert_has(body_of(r, 0), "\"args\":{\"amount\": 12}");
    unlink(path);
    rig_destroy(r);
}

static void explain_shows_every_rule(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    peer_will_answer(
        r->peer, 200, NULL,
        "{\"decision\":\"deny\",\"mode\":\"dry_run\",\"explain\":[{\"policy\":\"p\",\"rule\":\"r1\",\"verdict\":"
        "\"allow\",\"applies\":false,\"shadow\":true,\"why\":\"agents: no match\"}]}");
    assert_int_equal(RUN(r, "policy", "explain", "pay"), DONE);
    assert_has(peer_request(r->peer, 0),
               "POST /v1/agent/authorize?dry_run=true&explain=true HTTP/1.1\r\n");
    assert_has(
        r->out,
        "POLICY  RULE  VOTE   APPLIES  SHADOW  WHY\np       r1    allow  no       yes     agents: no match\n");
    rig_destroy(r);
}

/* ---- policies ---- */

static void a_file_is_put_under_its_own_name_or_a_given_one(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    char path[128];
    snprintf(path, sizeof path, "%s/pay-ments.yaml", r->peer->folder);
    FILE *file = fopen(path, "w");
    fputs("rules: [] # \"x\"\n", file);
    fclose(file);
    peer_will_answer(r->peer, 201, NULL,
                     "{\"name\":\"pay-ments\",\"version\":1,\"is_active\":false}");
    assert_int_equal(RUN(r, "policy", "put", path, "--inactive", "--new", "--description", "d"),
                     DONE);
    assert_has(peer_request(r->peer, 0), "PUT /api/v1/policies/pay-ments HTTP/1.1\r\n");
    assert_has(peer_request(r->peer, 0), "If-None-Match: *\r\n");
    assert_string_equal(
        body_of(r, 0),
        "{\"content\":\"rules: [] # \\\"x\\\"\\n\",\"description\":\"d\",\"is_active\":false}");
    assert_string_equal(r->out, "pay-ments is new: version 1, not active.\n");
    assert_int_equal(RUN(r, "policy", "put", "other name", path, "--if-match", "\"e\""), DONE);
    assert_has(peer_request(r->peer, 1), "PUT /api/v1/policies/other%20name HTTP/1.1\r\n");
    assert_has(peer_request(r->peer, 1), "If-Match: \"e\"\r\n");
    assert_int_equal(RUN(r, "policy", "put", path, "--active", "--dry-run"), DONE);
    assert_has(peer_request(r->peer, 2),
               "PUT /api/v1/policies/pay-ments?dry_run=true HTTP/1.1\r\n");
    assert_has(body_of(r, 2), "\"is_active\":true");
    assert_int_equal(RUN(r, "policy", "put", path, "--active", "--inactive"), USAGE);
    unlink(path);
    rig_destroy(r);
}

/* As policies.dir names it. */
static void a_files_name_loses_one_ending_only(void **state)
{
    (void)state;
    static const struct {
        const char *file, *policy;
    } cases[] = {{"a.yaml", "a"},          {"a.yml", "a"},          {"a.json", "a"},
                 {"a.json.yml", "a.json"}, {"a.yml.yaml", "a.yml"}, {"a.yaml.json", "a.yaml"},
                 {"a.txt", "a.txt"},       {".yml", ".yml"}};
    struct rig *r = rig_create();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[128], wanted[64];
        snprintf(path, sizeof path, "%s/%s", r->peer->folder, cases[i].file);
        snprintf(wanted, sizeof wanted, "PUT /api/v1/policies/%s HTTP/1.1\r\n", cases[i].policy);
        FILE *file = fopen(path, "w");
        fputs("rules: []\n", file);
        fclose(file);
        peer_will_answer(r->peer, 201, NULL, "{\"name\":\"a\",\"version\":1}");
        assert_int_equal(RUN(r, "policy", "put", path), DONE);
        assert_has(peer_request(r->peer, i), wanted);
        unlink(path);
    }
    rig_destroy(r);
}

static void mistakes_in_a_document_are_told_with_line_and_column(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    peer_will_answer(
        r->peer, 400, NULL,
        "{\"error\":\"not valid\",\"code\":\"invalid_policy\",\"details\":[{\"path\":\"rules[2].decision\","
        "\"line\":7,\"column\":9,\"message\":\"no\\u001b[31m\"}]}");
    assert_int_equal(RUN(r, "policy", "put", "x", "/dev/null"), REFUSED);
    assert_has(r->err, "  line 7, column 9: rules[2].decision: no\\u001b[31m\n");
    rig_destroy(r);
}

static void a_document_that_is_too_large_is_not_judged_by_its_beginning(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    char path[128];
    snprintf(path, sizeof path, "%s/large.yaml", r->peer->folder);
    FILE *file = fopen(path, "w");
    fputs("rules: []\n", file);
    for (size_t i = 0; i < LIMIT_POLICY_BODY_BYTES; i++) fputc('#', file);
    fclose(file);
    assert_int_equal(RUN(r, "policy", "check", path), USAGE);
    assert_has(r->err, "is larger than");
    unlink(path);
    rig_destroy(r);
}

static void check_and_test_need_no_program(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    char good[128], bad[128];
    snprintf(good, sizeof good, "%s/good.yaml", r->peer->folder);
    snprintf(bad, sizeof bad, "%s/bad.yaml", r->peer->folder);
    FILE *file = fopen(good, "w");
    fputs("rules:\n  - {id: a, agents: [b], actions: [x], decision: allow}\n"
          "tests:\n  - {request: {actor: b, action: x}, expect: allow}\n",
          file);
    fclose(file);
    file = fopen(bad, "w");
    fputs("rules:\n  - {id: a, agents: [b], actions: [x], decision: alow}\n", file);
    fclose(file);
    assert_int_equal(RUN_WITHOUT_KEY(r, "policy", "check", good), DONE);
    assert_has(r->out, "good.yaml: valid, 1 rule\n");
    assert_int_equal(RUN_WITHOUT_KEY(r, "policy", "check", good, bad), REFUSED);
    assert_has(r->out, "bad.yaml:2:");
    assert_int_equal(RUN_WITHOUT_KEY(r, "policy", "test", good), DONE);
    assert_has(r->out, "1 passed, 0 failed\n");
    assert_int_equal(RUN_WITHOUT_KEY(r, "policy", "check", "--json", bad), REFUSED);
    assert_has(r->out, "\"line\":2");
    assert_int_equal(RUN_WITHOUT_KEY(r, "policy", "check", "/nowhere.yaml"), USAGE);
    assert_int_equal(peer_request_count(r->peer), 0);
    unlink(good);
    unlink(bad);
    rig_destroy(r);
}

static void a_document_is_printed_as_it_is(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    peer_will_answer(r->peer, 200, "ETag: \"e1\"\r\n", "{\"content\":\"a: 1\\n\",\"name\":\"n\"}");
    assert_int_equal(RUN(r, "policy", "get", "n"), DONE);
    assert_string_equal(r->out, "a: 1\n");
    peer_will_answer(r->peer, 200, NULL, "{\"content\":\"a: 2\",\"name\":\"n\"}");
    assert_int_equal(RUN(r, "policy", "get", "n", "2"), DONE);
    assert_string_equal(r->out, "a: 2"); /* it goes back as the same version */
    assert_has(peer_request(r->peer, 1), "GET /api/v1/policies/n/versions/2 HTTP/1.1\r\n");
    assert_int_equal(RUN(r, "policy", "get", "n", "two"), USAGE);
    assert_int_equal(RUN(r, "policy", "rollback", "n", "2"), DONE);
    assert_has(peer_request(r->peer, 2), "POST /api/v1/policies/n/rollback HTTP/1.1\r\n");
    assert_string_equal(body_of(r, 2), "{\"version\":2}");
    assert_int_equal(RUN(r, "policy", "delete", "n", "--tenant", "a b"), DONE);
    assert_has(peer_request(r->peer, 3), "DELETE /api/v1/policies/n?tenant_id=a%20b HTTP/1.1\r\n");
    rig_destroy(r);
}

/* ---- doctor, docs ---- */

static void the_doctor_finds_what_is_wrong_and_says_what_to_do(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    peer_will_answer(
        r->peer, 200, "Date: Thu, 01 Jan 2026 00:00:00 GMT\r\n",
        "{\"status\":\"degraded\",\"service\":\"writ-engine\",\"version\":\"9\",\"checks\":{\"feed\":\"is away\"}}");
    assert_int_equal(RUN_WITHOUT_KEY(r, "doctor"), REFUSED);
    assert_has(r->out, "its check `feed` fails: is away. See \"engine: feed\" in ops/runbook.md");
    assert_has(r->out, "behind this machine's");
    assert_has(r->out, "no API key is given");
    assert_int_equal(
        RUN_WITHOUT_KEY(r, "doctor", "--engine", "unix:/nowhere", "--platform", "unix:/nowhere"),
        UNREACHABLE);
    assert_has(r->out, "Start writ-engine there");
    assert_int_equal(RUN_WITHOUT_KEY(r, "doctor", "--json"), REFUSED);
    assert_has(r->out, "{\"ok\":false,\"checks\":[{\"check\":\"engine\"");
    rig_destroy(r);
}

#define WELL(program)                                                                              \
    "{\"status\":\"ok\",\"service\":\"writ-" program                                               \
    "\",\"version\":\"9\",\"checks\":{\"store\":\"ok\"}}"
#define FIGURES(full, left, lag, clashes, stale, revision)                                         \
    "writ_engine_journal_full " full "\nwrit_engine_journal_left_seconds " left                    \
    "\nwrit_engine_publish_lag_records " lag "\nwrit_engine_publish_clashes_total " clashes        \
    "\nwrit_engine_bundle_stale " stale "\nwrit_engine_bundle_revision " revision "\n"

/* One visit: both programs' health and readiness, then the figures of both. */
static int visit(struct rig *r, const char *ready, int metrics_status, const char *engine_figures)
{
    peer_will_answer(r->peer, 200, NULL, WELL("engine"));
    peer_will_answer(r->peer, 200, NULL, "{}");
    peer_will_answer(r->peer, 200, NULL, WELL("platform"));
    peer_will_answer(r->peer, ready == NULL ? 200 : 503, NULL, ready == NULL ? "{}" : ready);
    peer_will_answer(r->peer, metrics_status, NULL, engine_figures);
    peer_will_answer(r->peer, metrics_status, NULL,
                     metrics_status == 200 ? "writ_platform_bundle_revision 7\n" : engine_figures);
    return RUN(r, "doctor");
}

static void the_doctor_reads_the_figures(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    assert_int_equal(visit(r, NULL, 200, FIGURES("0", "900000", "3", "0", "0", "7")), DONE);
    assert_has(r->out, "newest policies and keys (revision 7)");
    assert_has(r->out, "All is well.");
    assert_null(strstr(r->out, "its check"));
    rig_destroy(r);
    r = rig_create();
    assert_int_equal(visit(r, "{\"error\":\"the store is away\"}", 200,
                           FIGURES("1", "7200", "20000", "2", "1", "5")),
                     REFUSED);
    static const char *const told[] = {"platform  it is not ready: the store is away",
                                       "journal is full",
                                       "BAD   disk      at the present rate",
                                       "lasts 2 hours",
                                       "BAD   lag       20000 records",
                                       "numbers of 2 records of this engine",
                                       "gets no policies from the platform",
                                       "BAD   bundle    the engine has revision 5",
                                       "7 things to look at."};
    for (size_t i = 0; i < sizeof told / sizeof *told; i++) assert_has(r->out, told[i]);
    rig_destroy(r);
    r = rig_create();
    assert_int_equal(visit(r, NULL, 200, FIGURES("0", "900000", "3", "0", "0", "8")), REFUSED);
    assert_has(r->out, "BAD   bundle    the engine has revision 8 of policies and keys, the "
                       "platform only 7.");
    assert_null(strstr(r->out, "newest"));
    rig_destroy(r);
    r = rig_create();
    assert_int_equal(visit(r, NULL, 401, "{\"error\":\"no\",\"code\":\"unauthenticated\"}"),
                     REFUSED);
    assert_has(r->out, "BAD   key       the engine refuses the key (unauthenticated)");
    rig_destroy(r);
    r = rig_create();
    assert_int_equal(visit(r, NULL, 403, "{\"error\":\"no\",\"code\":\"missing_role\"}"), DONE);
    assert_has(r->out, "note  key       it may not read the engine's metrics (missing_role)");
    rig_destroy(r);
}

static void the_doctor_looks_into_a_data_directory(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    char pepper[128];
    snprintf(pepper, sizeof pepper, "%s/pepper", r->peer->folder);
    peer_will_answer(r->peer, 200, NULL, "{}");
    RUN_WITHOUT_KEY(r, "doctor", "--data", r->peer->folder);
    assert_has(r->out, "BAD   pepper");
    FILE *file = fopen(pepper, "w");
    for (int i = 0; i < 64; i++) fputc('0' + i % 10, file);
    fclose(file);
    chmod(pepper, 0600);
    chmod(r->peer->folder, 0770);
    RUN_WITHOUT_KEY(r, "doctor", "--data", r->peer->folder);
    assert_has(r->out, "ok    pepper");
    assert_has(r->out, "BAD   data      other users can replace files");
    chmod(r->peer->folder, 0750);
    RUN_WITHOUT_KEY(r, "doctor", "--data", r->peer->folder);
    assert_has(r->out, "note  data      other users can list");
    chmod(r->peer->folder, 0700);
    unlink(pepper);
    rig_destroy(r);
}

static void reference_pages_are_printed(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    assert_int_equal(RUN_WITHOUT_KEY(r, "docs", "errors"), DONE);
    assert_has(r->out, "| 409 | `stream_gap` |");
    assert_null(strstr(r->out, "`ok`"));
    assert_int_equal(RUN_WITHOUT_KEY(r, "docs", "config"), DONE);
    assert_has(r->out, "| `journal.keep` | `WRIT_JOURNAL_KEEP` | `72h` |");
    assert_int_equal(RUN_WITHOUT_KEY(r, "docs", "metrics"), DONE);
    assert_has(r->out, "writ_engine_publish_lag_records");
    assert_int_equal(RUN_WITHOUT_KEY(r, "docs", "nothing"), USAGE);
    rig_destroy(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(help_is_printed_for_all_for_groups_and_for_commands),
        cmocka_unit_test(every_help_line_fits_a_terminal),
        cmocka_unit_test(a_command_line_that_makes_no_sense_is_told_what_would),
        cmocka_unit_test(a_program_is_where_its_options_variable_names_it),
        cmocka_unit_test(a_word_may_begin_with_dashes_where_it_is_said_to_be_one),
        cmocka_unit_test(more_words_than_there_is_room_for_are_refused),
        cmocka_unit_test(every_command_acts_in_the_tenant_that_is_named),
        cmocka_unit_test(a_list_that_goes_on_says_how_to_see_more),
        cmocka_unit_test(a_key_on_the_command_line_is_refused_with_the_reason),
        cmocka_unit_test(without_a_key_nothing_is_asked),
        cmocka_unit_test(a_key_file_is_used_but_not_where_others_can_read_it),
        cmocka_unit_test(a_program_that_is_not_there_is_status_three),
        cmocka_unit_test(what_was_asked_and_not_answered_may_have_been_done),
        cmocka_unit_test(a_refusal_is_told_in_the_programs_own_words),
        cmocka_unit_test(what_is_no_answer_of_ours_is_no_success),
        cmocka_unit_test(a_gateways_page_is_not_printed_as_json),
        cmocka_unit_test(the_agent_form_writes_snake_case_and_keeps_args_as_typed),
        cmocka_unit_test(the_tool_form_puts_its_extras_into_the_context),
        cmocka_unit_test(the_user_form_is_for_people),
        cmocka_unit_test(only_a_plain_allow_is_status_zero),
        cmocka_unit_test(bad_args_are_refused_before_anything_is_sent),
        cmocka_unit_test(args_may_come_from_a_file),
        cmocka_unit_test(explain_shows_every_rule),
        cmocka_unit_test(a_file_is_put_under_its_own_name_or_a_given_one),
        cmocka_unit_test(a_files_name_loses_one_ending_only),
        cmocka_unit_test(mistakes_in_a_document_are_told_with_line_and_column),
        cmocka_unit_test(a_document_that_is_too_large_is_not_judged_by_its_beginning),
        cmocka_unit_test(check_and_test_need_no_program),
        cmocka_unit_test(a_document_is_printed_as_it_is),
        cmocka_unit_test(the_doctor_finds_what_is_wrong_and_says_what_to_do),
        cmocka_unit_test(the_doctor_reads_the_figures),
        cmocka_unit_test(the_doctor_looks_into_a_data_directory),
        cmocka_unit_test(reference_pages_are_printed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

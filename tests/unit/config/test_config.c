/* The table of options through its public door: values, where they come from, refusals, help. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#include "config/config.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static enum err read_with(enum program program, char **flags, size_t count, char **environment,
                          struct config *c, struct fault *f)
{
    char *argv[16] = {(char *)(uintptr_t) "writ"};
    assert_true(count < COUNT_OF(argv) - 1);
    for (size_t i = 0; i < count; i++) argv[i + 1] = flags[i];
    return config_read(program, (int)count + 1, argv, environment, c, f);
}

#define FLAGS(...) ((char *[]){__VA_ARGS__})
#define READ(program, c, f, ...)                                                                   \
    read_with(program, FLAGS(__VA_ARGS__), COUNT_OF(FLAGS(__VA_ARGS__)), (char *[]){NULL}, c, f)
#define READ_ENVIRONMENT(program, c, f, ...)                                                       \
    read_with(program, NULL, 0, (char *[]){__VA_ARGS__, NULL}, c, f)

/* A file in the build's temporary folder that holds `text`; the caller removes it. */
static void write_file(char path[64], const char *text)
{
    snprintf(path, 64, "%s", "/tmp/writ-config-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

static void assert_says(const struct fault *f, const char *part)
{
    if (strstr(f->text, part) == NULL) fail_msg("\"%s\" does not say \"%s\"", f->text, part);
}

static void sizes_are_read_with_their_units(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t bytes;
    } right[] = {{"0", 0},
                 {"100", 100},
                 {"12B", 12},
                 {"64KiB", 65536},
                 {"3MiB", 3145728},
                 {"1GiB", 1ull << 30},
                 {"2TiB", 2ull << 40},
                 {"18446744073709551615", UINT64_MAX}};
    for (size_t i = 0; i < COUNT_OF(right); i++) {
        uint64_t bytes = 7;
        assert_true(config_bytes(str_from(right[i].text), &bytes));
        assert_true(bytes == right[i].bytes);
    }
}

static void a_ratio_is_a_decimal_fraction_from_0_to_1(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double ratio;
    } right[] = {{"0", 0},    {"1", 1}, {"0.25", 0.25}, {"1.0", 1}, {"0.000000001", 1e-9},
                 {"0.5", 0.5}};
    static const char *const wrong[] = {
        "",   ".",    "1.1",          "2",    "-0.5", "0.",
        ".5", "1e-3", "0.0000000001", "half", "0,5",  "1.000000001"};
    struct config c;
    struct fault f;
    for (size_t i = 0; i < COUNT_OF(right); i++) {
        assert_int_equal(
            READ(PROGRAM_ENGINE, &c, &f, "--otlp.sample", (char *)(uintptr_t)right[i].text),
            ERR_OK);
        assert_true(c.otlp_sample >= right[i].ratio && c.otlp_sample <= right[i].ratio);
        config_fini(&c);
    }
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        assert_int_equal(READ(PROGRAM_ENGINE, &c, &f, "--otlp.sample", (char *)(uintptr_t)wrong[i]),
                         ERR_BAD_VALUE);
        assert_says(&f, "it must be a number from 0 to 1, such as 0.01");
    }
}

static void what_is_no_size_is_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {"",
                                        "KiB",
                                        "-1",
                                        "+1",
                                        "1.5MiB",
                                        "1 MiB",
                                        "64KB",
                                        "64kib",
                                        "1s",
                                        "18446744073709551616",
                                        "99999999999TiB",
                                        "0x10",
                                        " 1",
                                        "1 "};
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        uint64_t bytes = 7;
        if (config_bytes(str_from(wrong[i]), &bytes))
            fail_msg("\"%s\" was taken for a size", wrong[i]);
        assert_int_equal(bytes, 7);
    }
}

static void spans_are_read_with_their_units(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t ms;
    } right[] = {{"0", 0},           {"250ms", 250},    {"30s", 30000}, {"10m", 600000},
                 {"72h", 259200000}, {"7d", 604800000}, {"0s", 0}};
    for (size_t i = 0; i < COUNT_OF(right); i++) {
        uint64_t ms = 7;
        assert_true(config_span(str_from(right[i].text), &ms));
        assert_true(ms == right[i].ms);
    }
}

static void what_is_no_span_is_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {"",      "10",   "s",  "-1s", "1.5h",
                                        "1h30m", "10 s", "5w", "5MS", "99999999999999999999d"};
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        uint64_t ms = 7;
        if (config_span(str_from(wrong[i]), &ms)) fail_msg("\"%s\" was taken for a span", wrong[i]);
        assert_int_equal(ms, 7);
    }
}

static void without_any_source_the_defaults_hold(void **state)
{
    (void)state;
    struct config c;
    struct fault f;
    assert_int_equal(read_with(PROGRAM_ENGINE, NULL, 0, NULL, &c, &f), ERR_OK);
    assert_string_equal(c.data, "data");
    assert_string_equal(c.listen, "127.0.0.1:8080");
    assert_string_equal(c.pepper_file, "data/pepper");
    assert_string_equal(c.durability, "synced");
    assert_string_equal(c.platform_url, "");
    assert_true(c.segment_bytes == 64ull << 20);
    assert_true(c.keep_ms == 259200000);
    assert_false(c.metrics_public);
    config_fini(&c);
}

static void each_program_has_its_own_port(void **state)
{
    (void)state;
    struct config c;
    struct fault f;
    assert_int_equal(read_with(PROGRAM_PLATFORM, NULL, 0, NULL, &c, &f), ERR_OK);
    assert_string_equal(c.listen, "127.0.0.1:9090");
    assert_string_equal(c.store, "data/platform.db");
    config_fini(&c);
}

static void a_path_in_data_follows_data_unless_it_is_given(void **state)
{
    (void)state;
    struct config c;
    struct fault f;
    assert_int_equal(READ(PROGRAM_PLATFORM, &c, &f, "--data", "/srv/writ", "--store=/db/x.db"),
                     ERR_OK);
    assert_string_equal(c.pepper_file, "/srv/writ/pepper");
    assert_string_equal(c.store, "/db/x.db");
    config_fini(&c);
}

static void a_flag_is_written_with_a_blank_or_an_equals_sign(void **state)
{
    (void)state;
    struct config c;
    struct fault f;
    assert_int_equal(READ(PROGRAM_ENGINE, &c, &f, "--reactors", "3", "--node=n=1",
                          "--metrics.public", "--durability", "written"),
                     ERR_OK);
    assert_int_equal(c.reactors, 3);
    assert_string_equal(c.node, "n=1");
    assert_true(c.metrics_public);
    assert_string_equal(c.durability, "written");
    config_fini(&c);
    assert_int_equal(
        READ(PROGRAM_ENGINE, &c, &f, "--metrics.public", "true", "--metrics.public", "false"),
        ERR_OK);
    assert_false(c.metrics_public);
    config_fini(&c);
    assert_int_equal(READ(PROGRAM_ENGINE, &c, &f, "--metrics.public", "yes"), ERR_BAD_VALUE);
    assert_non_null(strstr(f.text, "metrics.public (flag): \"yes\""));
}

static void a_flag_beats_the_environment_which_beats_the_file(void **state)
{
    (void)state;
    char path[64];
    write_file(
        path,
        "# all three\nreactors = 1\nnode = from-file\nlisten.unix = /run/a#b\t# ends here\nhttp.idle.timeout = 5s   # not long\n");
    struct config c;
    struct fault f;
    char *environment[] = {(char *)(uintptr_t) "WRIT_REACTORS=2",
                           (char *)(uintptr_t) "WRIT_NODE=from-environment", NULL};
    enum err e = read_with(PROGRAM_ENGINE, FLAGS("--config", path, "--reactors", "3"), 4,
                           environment, &c, &f);
    unlink(path);
    assert_int_equal(e, ERR_OK);
    assert_int_equal(c.reactors, 3);
    assert_string_equal(c.node, "from-environment");
    assert_int_equal(c.idle_ms, 5000);
    assert_string_equal(c.listen_unix, "/run/a#b");
    config_fini(&c);
}

static void the_file_may_be_named_in_the_environment(void **state)
{
    (void)state;
    char path[64], variable[96];
    write_file(path, "node = a b\r\nplatform.url = http://h:1/#x\n");
    snprintf(variable, sizeof variable, "WRIT_CONFIG=%s", path);
    struct config c;
    struct fault f;
    enum err e = READ_ENVIRONMENT(PROGRAM_ENGINE, &c, &f, variable);
    assert_int_equal(e, ERR_BAD_VALUE); /* a URL with a path is none of ours; line 2 is named */
    assert_says(&f, ":2)");
    unlink(path);
}

static void a_dotted_name_is_a_variable_with_underscores(void **state)
{
    (void)state;
    struct config c;
    struct fault f;
    assert_int_equal(READ_ENVIRONMENT(PROGRAM_ENGINE, &c, &f, "WRIT_JOURNAL_KEEP_SIZE=1GiB",
                                      "WRIT_LISTEN_UNIX=/run/w.sock"),
                     ERR_OK);
    assert_true(c.keep_bytes == 1ull << 30);
    assert_string_equal(c.listen_unix, "/run/w.sock");
    config_fini(&c);
}

static void an_empty_variable_counts_as_unset(void **state)
{
    (void)state;
    struct config c;
    struct fault f;
    assert_int_equal(READ_ENVIRONMENT(PROGRAM_ENGINE, &c, &f, "WRIT_REACTORS=", "WRIT_CONFIG="),
                     ERR_OK);
    assert_int_equal(c.reactors, 0);
    config_fini(&c);
}

static void variables_of_other_tools_are_left_alone(void **state)
{
    (void)state;
    struct config c;
    struct fault f;
    assert_int_equal(READ_ENVIRONMENT(PROGRAM_PLATFORM, &c, &f, "WRIT_BUILD=x", "WRIT_BUG=no_crc",
                                      "WRIT_KEY=k", "WRIT_AGENT_KEY=k", "WRIT_LONG=1",
                                      "WRIT_ENGINE=http://h:1", "WRIT_PLATFORM=http://h:1",
                                      "WRIT_BIN=x", "WRITER=1", "WRIT_DATE=x", "WRIT_LISTNING=x",
                                      "WRIT_SHARE=x"),
                     ERR_OK);
    config_fini(&c);
}

static void a_variable_that_nobody_knows_is_told(void **state)
{
    (void)state;
    char *environment[] = {
        (char *)(uintptr_t) "WRIT_KEY=k",        (char *)(uintptr_t) "WRIT_DURABLE=written",
        (char *)(uintptr_t) "WRIT_NODE=n",       (char *)(uintptr_t) "WRIT_REACTORS=2",
        (char *)(uintptr_t) "WRIT_STORE_URL=",   (char *)(uintptr_t) "WRITER=1",
        (char *)(uintptr_t) "WRIT_KEEP_LONG=",   (char *)(uintptr_t) "WRIT_CONFIG=f",
        (char *)(uintptr_t) "WRIT_RETENTION=1d", NULL};
    size_t at = 0;
    assert_true(str_equal(config_stray_next(environment, &at), STR("WRIT_DURABLE")));
    assert_true(str_equal(config_stray_next(environment, &at), STR("WRIT_RETENTION")));
    assert_true(str_is_absent(config_stray_next(environment, &at)));
    at = 0;
    assert_true(str_is_absent(config_stray_next(NULL, &at)));
}

static void a_mistyped_variable_is_refused_with_the_right_one(void **state)
{
    (void)state;
    struct config c;
    struct fault f;
    assert_int_equal(READ_ENVIRONMENT(PROGRAM_ENGINE, &c, &f, "WRIT_DURABILTY=written"),
                     ERR_UNKNOWN_PARAMETER);
    assert_says(&f, "WRIT_DURABILTY");
    assert_says(&f, "did you mean WRIT_DURABILITY?");
}

static void an_unknown_flag_is_refused_with_the_nearest_name(void **state)
{
    (void)state;
    struct config c;
    struct fault f;
    assert_int_equal(READ(PROGRAM_ENGINE, &c, &f, "--journal.sgement_size", "1MiB"),
                     ERR_UNKNOWN_PARAMETER);
    assert_string_equal(f.field, "journal.sgement_size");
    assert_says(&f, "did you mean journal.segment_size?");
}

static void a_name_like_nothing_is_refused_without_a_guess(void **state)
{
    (void)state;
    struct config c;
    struct fault f;
    assert_int_equal(READ(PROGRAM_ENGINE, &c, &f, "--zzzzzzzzz", "1"), ERR_UNKNOWN_PARAMETER);
    assert_says(&f, "--help lists all");
}

static void a_flag_of_the_other_program_is_refused_as_such(void **state)
{
    (void)state;
    struct config c;
    struct fault f;
    assert_int_equal(READ(PROGRAM_PLATFORM, &c, &f, "--reactors", "2"), ERR_UNKNOWN_PARAMETER);
    assert_says(&f, "option of writ-engine, not of writ-platform");
}

static void one_file_may_serve_both_programs_but_its_values_are_checked(void **state)
{
    (void)state;
    struct config c;
    struct fault f;
    assert_int_equal(READ_ENVIRONMENT(PROGRAM_PLATFORM, &c, &f, "WRIT_REACTORS=2"), ERR_OK);
    config_fini(&c);
    assert_int_equal(READ_ENVIRONMENT(PROGRAM_PLATFORM, &c, &f, "WRIT_REACTORS=two"),
                     ERR_BAD_VALUE);
}

static void an_address_with_a_password_is_told_without_it(void **state)
{
    (void)state;
    struct config c;
    struct fault f;
    assert_int_equal(read_with(PROGRAM_ENGINE, NULL, 0, NULL, &c, &f), ERR_OK);
    assert_int_equal(config_apply_text(&c, PROGRAM_ENGINE,
                                       STR("platform.url = http://me:secret@host:1\n"), "f", &f),
                     ERR_BAD_VALUE);
    assert_non_null(strstr(f.text, "platform.url"));
    assert_null(strstr(f.text, "secret"));
    config_fini(&c);
}

static void assert_named(const struct config *c, const char *before, const char *after)
{
    struct fault f;
    (void)fault_set(&f, ERR_BAD_VALUE, "the.field", "%s", before);
    config_name_sources(c, &f);
    assert_string_equal(f.text, after);
    assert_string_equal(f.field, "the.field");
    assert_int_equal(f.err, ERR_BAD_VALUE);
}

static void what_is_refused_later_is_told_with_the_place_too(void **state)
{
    (void)state;
    char path[64], wanted[400];
    write_file(path, "\nkafka.user = me\ndata = d\nnode = n\naudit.keep = 1h\n");
    struct config c;
    struct fault f;
    assert_int_equal(read_with(PROGRAM_ENGINE, FLAGS("--config", path, "--kafka.security", "ssl"),
                               4, (char *[]){"WRIT_KAFKA_PASSWORD_FILE=/p", "WRIT_NODE=m", NULL},
                               &c, &f),
                     ERR_OK);
    unlink(path);
    snprintf(
        wanted, sizeof wanted,
        "kafka.user (%s:2), kafka.password_file (environment WRIT_KAFKA_PASSWORD_FILE), kafka.token_file: there is no login with "
        "kafka.security (flag) = ssl",
        path);
    assert_named(
        &c,
        "kafka.user, kafka.password_file, kafka.token_file: there is no login with kafka.security = ssl",
        wanted);
    assert_named(&c, "node: node kafka.security. kafka.security",
                 "node (environment WRIT_NODE): node kafka.security (flag). kafka.security");
    assert_named(&c, "listen: /x/kafka.security is data, node and kafka.user.x",
                 "listen: /x/kafka.security is data, node and kafka.user.x");
    snprintf(wanted, sizeof wanted, "audit.keep (%s:5): must be 0", path);
    assert_named(&c, "audit.keep: must be 0", wanted);
    assert_named(&c, "", "");
    config_fini(&c);
}

static void a_data_directory_without_a_name_is_told_with_its_place(void **state)
{
    (void)state;
    struct config c;
    struct fault f;
    assert_int_equal(READ(PROGRAM_ENGINE, &c, &f, "--data="), ERR_BAD_VALUE);
    assert_says(&f, "data (flag): it is empty");
}

#define TEN_BYTES "0123456789"
#define HUNDRED_BYTES                                                                              \
    TEN_BYTES TEN_BYTES TEN_BYTES TEN_BYTES TEN_BYTES TEN_BYTES TEN_BYTES TEN_BYTES TEN_BYTES      \
        TEN_BYTES

static void a_bad_value_is_told_with_its_name_and_place_and_what_would_be_right(void **state)
{
    (void)state;
    static const struct {
        const char *line, *says;
    } wrong[] = {
        {"http.idle_timeout = soon", "a span such as 250ms"},
        {"http.idle_timeout = 0", "at least 10ms"},
        {"journal.segment_size = 64MB", "a size such as 512"},
        {"journal.segment_size = 1KiB", "at least 1MiB"},
        {"reactors = 65", "at most 64"},
        {"reactors = -1", "a whole number"},
        {"durability = maybe", "synced|written"},
        {"durability =", "synced|written"},
        {"metrics.public = yes", "true or false"},
        {"listen = 8080", "host:port"},
        {"listen = ::1:8080", "host:port"},
        {"listen = 127.0.0.1:65536", "host:port"},
        {"platform.url = ftp://x:1", "http://host:port, https://host:port or unix:/path"},
        {"platform.url = https://h:0", "http://host:port, https://host:port or unix:/path"},
        {"platform.url = unix:relative", "http://host:port, https://host:port or unix:/path"},
        {"platform.url = http://h:0", "http://host:port, https://host:port or unix:/path"},
        {"platform.url = http://h!:1", "http://host:port, https://host:port or unix:/path"},
        {"platform.url = http://h:1/", "http://host:port, https://host:port or unix:/path"},
        {"platform.url = unix:/" HUNDRED_BYTES "1234567",
         "http://host:port, https://host:port or unix:/path"},
    };
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        char text[192], name[32] = {0};
        snprintf(text, sizeof text, "\n# a comment\n%s\n", wrong[i].line);
        memcpy(name, wrong[i].line, str_find(str_from(wrong[i].line), ' '));
        struct config c;
        struct fault f;
        assert_int_equal(read_with(PROGRAM_ENGINE, NULL, 0, NULL, &c, &f), ERR_OK);
        enum err e = config_apply_text(&c, PROGRAM_ENGINE, str_from(text), "writ.conf", &f);
        if (e != ERR_BAD_VALUE) fail_msg("%s was taken", wrong[i].line);
        assert_string_equal(f.field, name);
        assert_says(&f, name);
        assert_says(&f, "writ.conf:3");
        assert_says(&f, wrong[i].says);
        config_fini(&c);
    }
}

static void a_long_value_is_told_cut_between_characters(void **state)
{
    (void)state;
    char text[128] = "reactors = x";
    for (size_t i = 0; i < 40; i++) memcpy(text + strlen(text), "\xc3\xa9", 3);
    struct config c;
    struct fault f;
    size_t offset;
    assert_int_equal(read_with(PROGRAM_ENGINE, NULL, 0, NULL, &c, &f), ERR_OK);
    assert_int_equal(config_apply_text(&c, PROGRAM_ENGINE, str_from(text), "f", &f), ERR_BAD_VALUE);
    assert_true(str_is_utf8(str_from(f.text), &offset));
    config_fini(&c);
}

static void addresses_of_every_form_are_taken(void **state)
{
    (void)state;
    struct config c;
    struct fault f;
    assert_int_equal(
        READ(PROGRAM_ENGINE, &c, &f, "--listen", "[::1]:0", "--platform.url", "unix:/run/p.sock"),
        ERR_OK);
    config_fini(&c);
    assert_int_equal(READ(PROGRAM_ENGINE, &c, &f, "--listen", "localhost:80", "--platform.url",
                          "http://[::1]:9090"),
                     ERR_OK);
    config_fini(&c);
}

static void a_name_that_a_file_sets_twice_is_refused_with_both_lines(void **state)
{
    (void)state;
    struct config c;
    struct fault f;
    assert_int_equal(read_with(PROGRAM_ENGINE, NULL, 0, NULL, &c, &f), ERR_OK);
    assert_int_equal(config_apply_text(&c, PROGRAM_ENGINE, STR("node = a\n\nnode = a\n"), "f", &f),
                     ERR_BAD_VALUE);
    assert_says(&f, "f:3");
    assert_says(&f, "line 1");
    config_fini(&c);
}

static void a_value_that_is_not_utf8_is_told_so(void **state)
{
    (void)state;
    struct config c;
    struct fault f;
    assert_int_equal(READ(PROGRAM_ENGINE, &c, &f, "--data", "/srv/\xff"), ERR_BAD_VALUE);
    assert_says(&f, "data (flag): \"/srv/");
    assert_says(&f, "it must be UTF-8");
}

static void a_line_that_is_no_setting_is_refused_with_its_number(void **state)
{
    (void)state;
    static const struct {
        struct str text;
        const char *says;
    } wrong[] = {{STR("node a"), "f:1: the `=` is missing"},
                 {STR("\n= a"), "f:2: the text before `=` is not the name"},
                 {STR("no de = a"), "f:1: the text before `=` is not the name"},
                 {STR("node = a\0b"), "f:1: it holds a NUL"},
                 {STR("node = \xff"), "f:1: it is not UTF-8"}};
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        struct config c;
        struct fault f;
        assert_int_equal(read_with(PROGRAM_ENGINE, NULL, 0, NULL, &c, &f), ERR_OK);
        assert_int_equal(config_apply_text(&c, PROGRAM_ENGINE, wrong[i].text, "f", &f),
                         ERR_BAD_VALUE);
        assert_says(&f, wrong[i].says);
        config_fini(&c);
    }
}

static void a_file_that_is_not_there_is_told_by_name(void **state)
{
    (void)state;
    struct config c;
    struct fault f;
    assert_int_equal(READ(PROGRAM_ENGINE, &c, &f, "--config", "/nowhere/writ.conf"), ERR_NOT_FOUND);
    assert_says(&f, "/nowhere/writ.conf");
    assert_int_equal(READ(PROGRAM_ENGINE, &c, &f, "--config", "/"), ERR_IO);
}

static void a_file_may_have_64_kib_and_not_a_byte_more(void **state)
{
    (void)state;
    enum { MOST = 64 << 10 };
    static char text[MOST + 2];
    struct config c;
    struct fault f;
    char path[64];
    memset(text, '\n', MOST);
    write_file(path, text);
    assert_int_equal(READ(PROGRAM_ENGINE, &c, &f, "--config", path), ERR_OK);
    config_fini(&c);
    unlink(path);
    text[MOST] = '\n';
    write_file(path, text);
    assert_int_equal(READ(PROGRAM_ENGINE, &c, &f, "--config", path), ERR_BAD_VALUE);
    assert_says(&f, "is larger than 64KiB");
    unlink(path);
}

static void a_missing_value_and_a_bare_word_are_refused(void **state)
{
    (void)state;
    struct config c;
    struct fault f;
    assert_int_equal(READ(PROGRAM_ENGINE, &c, &f, "--reactors"), ERR_BAD_VALUE);
    assert_says(&f, "its value is missing; it must be a whole number");
    assert_int_equal(READ(PROGRAM_ENGINE, &c, &f, "--config"), ERR_BAD_VALUE);
    assert_int_equal(READ(PROGRAM_ENGINE, &c, &f, "start"), ERR_BAD_VALUE);
    assert_says(&f, "\"start\"");
    assert_int_equal(READ(PROGRAM_ENGINE, &c, &f, "-v"), ERR_BAD_VALUE);
    assert_int_equal(READ(PROGRAM_ENGINE, &c, &f, "--data", ""), ERR_BAD_VALUE);
}

static void help_and_version_end_the_program_before_anything_is_checked(void **state)
{
    (void)state;
    struct config c;
    struct fault f;
    assert_int_equal(READ(PROGRAM_ENGINE, &c, &f, "--nonsense", "1", "--help"), ERR_END);
    assert_int_equal(READ(PROGRAM_PLATFORM, &c, &f, "--version"), ERR_END);
}

static void help_lists_the_options_of_its_program_only(void **state)
{
    (void)state;
    struct buf out;
    buf_init(&out, 0, 1 << 20);
    config_put_help(&out, PROGRAM_PLATFORM);
    buf_put_byte(&out, '\0');
    assert_non_null(strstr(out.bytes, "--store.readers NUMBER   (default 2)"));
    assert_null(strstr(out.bytes, "--reactors"));
    for (struct str rest = buf_view(&out), line; str_split(&rest, '\n', &line);)
        if (line.size > 100)
            fail_msg("a line of the help is wider than a terminal: %.*s", STR_FORMAT(line));
    buf_fini(&out);
}

static void the_reference_has_every_option(void **state)
{
    (void)state;
    struct buf out;
    buf_init(&out, 0, 1 << 20);
    config_put_reference(&out);
    buf_put_byte(&out, '\0');
#define OPTION(field, type, programs, name, otherwise, help)                                       \
    assert_non_null(strstr(out.bytes, "| `" name "` |"));
#include "config/options.def"
#undef OPTION
    buf_fini(&out);
}

static void a_former_name_is_read_with_the_unit_that_it_had(void **state)
{
    (void)state;
    struct config c;
    struct fault f;
    assert_int_equal(READ(PROGRAM_ENGINE, &c, &f, "--snapshot.seconds", "90",
                          "--redis.timeout_ms=1500", "--token.rotate_days", "2",
                          "--journal.segment", "2MiB"),
                     ERR_OK);
    assert_int_equal(c.snapshot_ms, 90000);
    assert_int_equal(c.redis_timeout_ms, 1500);
    assert_int_equal(c.token_rotate_ms, 2 * 86400000);
    assert_int_equal(c.segment_bytes, 2 << 20);
    assert_string_equal(c.former[CONFIG_AT_snapshot_ms], "snapshot.seconds");
    assert_null(c.former[CONFIG_AT_keep_ms]);
    config_fini(&c);
    assert_int_equal(READ_ENVIRONMENT(PROGRAM_ENGINE, &c, &f, "WRIT_JOURNAL_KEEP_BYTES=1GiB"),
                     ERR_OK);
    assert_int_equal(c.keep_bytes, 1 << 30);
    config_fini(&c);
    assert_int_equal(READ(PROGRAM_ENGINE, &c, &f, "--snapshot.interval", "90"), ERR_BAD_VALUE);
    assert_int_equal(READ(PROGRAM_ENGINE, &c, &f, "--snapshot.seconds", "0"), ERR_BAD_VALUE);
}

/* ---- notify.NAME.KEY ---- */

static const struct config_channel *channel_named(const struct config *c, const char *name)
{
    for (size_t i = 0; i < c->channel_count; i++)
        if (strcmp(c->channels[i]->name, name) == 0) return c->channels[i];
    fail_msg("there is no channel %s", name);
    return NULL;
}

static void a_channel_is_set_from_file_environment_and_flags(void **state)
{
    (void)state;
    struct config c;
    struct fault f;
    char path[64];
    write_file(path, "notify.finance-slack.kind = slack\nnotify.finance-slack.url = https://a/#b\n"
                     "notify.ops.kind = mail\n");
    char *argv[] = {(char *)(uintptr_t) "writ",
                    (char *)(uintptr_t) "--config",
                    path,
                    (char *)(uintptr_t) "--notify.ops.allow_private=true",
                    (char *)(uintptr_t) "--notify.ops.kind",
                    (char *)(uintptr_t) "webhook"};
    char *environment[] = {(char *)(uintptr_t) "WRIT_NOTIFY_FINANCE_SLACK_URL_FILE=/f",
                           (char *)(uintptr_t) "WRIT_NOTIFY_THIRD_TENANT=acme", NULL};
    enum err err = config_read(PROGRAM_PLATFORM, 6, argv, environment, &c, &f);
    if (err != ERR_OK) fail_msg("%s", f.text);
    assert_int_equal(c.channel_count, 3);
    const struct config_channel *slack = channel_named(&c, "finance-slack"),
                                *ops = channel_named(&c, "ops"),
                                *third = channel_named(&c, "third");
    assert_string_equal(slack->kind, "slack");
    assert_string_equal(slack->url, "https://a/#b");
    assert_string_equal(slack->url_file, "/f");
    assert_string_equal(slack->tenant, "default");
    assert_false(slack->allow_private);
    assert_string_equal(ops->kind, "webhook");
    assert_true(ops->allow_private);
    assert_string_equal(third->tenant, "acme");
    assert_string_equal(third->kind, "");
    config_fini(&c);
    unlink(path);
}

static void what_is_no_option_of_a_channel_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *flag, *value, *told;
    } wrong[] = {
        {"--notify.a.knd", "slack",
         "notify.a.knd (flag): there is no such option; it must be notify.NAME.KEY"},
        {"--notify.kind", "slack", "notify.kind (flag): there is no such option"},
        {"--notify.A.kind", "slack", "notify.A.kind (flag): there is no such option"},
        {"--notify.a_b.kind", "slack", "notify.a_b.kind (flag): there is no such option"},
        {"--notify.a.kind", "fax",
         "notify.a.kind (flag): \"fax\" is not valid; it must be webhook|slack|teams|mail"},
        {"--notify.a.allow_private", "yes",
         "notify.a.allow_private (flag): \"yes\" is not valid; it must be true or false"},
    };
    struct config c;
    struct fault f;
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        assert_int_not_equal(READ(PROGRAM_PLATFORM, &c, &f, (char *)(uintptr_t)wrong[i].flag,
                                  (char *)(uintptr_t)wrong[i].value),
                             ERR_OK);
        assert_says(&f, wrong[i].told);
    }
    assert_int_not_equal(
        READ_ENVIRONMENT(PROGRAM_PLATFORM, &c, &f, (char *)(uintptr_t) "WRIT_NOTIFY_A_KNID=slack"),
        ERR_OK);
    assert_says(&f, "WRIT_NOTIFY_A_KNID (environment WRIT_NOTIFY_A_KNID): there is no such option");
    memset(&c, 0, sizeof c);
    assert_int_equal(config_apply_text(&c, PROGRAM_ENGINE,
                                       STR("notify.a.tenant = x\nnotify.a.tenant = y\n"), "f", &f),
                     ERR_BAD_VALUE);
    assert_says(&f, "notify.a.tenant (f:2): it is already set at f:1");
    config_fini(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_channel_is_set_from_file_environment_and_flags),
        cmocka_unit_test(what_is_no_option_of_a_channel_is_refused),
        cmocka_unit_test(sizes_are_read_with_their_units),
        cmocka_unit_test(a_former_name_is_read_with_the_unit_that_it_had),
        cmocka_unit_test(a_ratio_is_a_decimal_fraction_from_0_to_1),
        cmocka_unit_test(what_is_no_size_is_refused),
        cmocka_unit_test(spans_are_read_with_their_units),
        cmocka_unit_test(what_is_no_span_is_refused),
        cmocka_unit_test(without_any_source_the_defaults_hold),
        cmocka_unit_test(each_program_has_its_own_port),
        cmocka_unit_test(a_path_in_data_follows_data_unless_it_is_given),
        cmocka_unit_test(a_flag_is_written_with_a_blank_or_an_equals_sign),
        cmocka_unit_test(a_flag_beats_the_environment_which_beats_the_file),
        cmocka_unit_test(the_file_may_be_named_in_the_environment),
        cmocka_unit_test(a_dotted_name_is_a_variable_with_underscores),
        cmocka_unit_test(an_empty_variable_counts_as_unset),
        cmocka_unit_test(variables_of_other_tools_are_left_alone),
        cmocka_unit_test(a_variable_that_nobody_knows_is_told),
        cmocka_unit_test(a_mistyped_variable_is_refused_with_the_right_one),
        cmocka_unit_test(an_unknown_flag_is_refused_with_the_nearest_name),
        cmocka_unit_test(a_name_like_nothing_is_refused_without_a_guess),
        cmocka_unit_test(a_flag_of_the_other_program_is_refused_as_such),
        cmocka_unit_test(one_file_may_serve_both_programs_but_its_values_are_checked),
        cmocka_unit_test(what_is_refused_later_is_told_with_the_place_too),
        cmocka_unit_test(a_data_directory_without_a_name_is_told_with_its_place),
        cmocka_unit_test(an_address_with_a_password_is_told_without_it),
        cmocka_unit_test(a_bad_value_is_told_with_its_name_and_place_and_what_would_be_right),
        cmocka_unit_test(a_long_value_is_told_cut_between_characters),
        cmocka_unit_test(addresses_of_every_form_are_taken),
        cmocka_unit_test(a_name_that_a_file_sets_twice_is_refused_with_both_lines),
        cmocka_unit_test(a_value_that_is_not_utf8_is_told_so),
        cmocka_unit_test(a_line_that_is_no_setting_is_refused_with_its_number),
        cmocka_unit_test(a_file_that_is_not_there_is_told_by_name),
        cmocka_unit_test(a_file_may_have_64_kib_and_not_a_byte_more),
        cmocka_unit_test(a_missing_value_and_a_bare_word_are_refused),
        cmocka_unit_test(help_and_version_end_the_program_before_anything_is_checked),
        cmocka_unit_test(help_lists_the_options_of_its_program_only),
        cmocka_unit_test(the_reference_has_every_option),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

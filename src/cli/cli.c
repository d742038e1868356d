/* cli.c - finds the command for the words of a command line. */
#include "cli/cli.h"

#include <locale.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "http/client.h"
#include "tls/tls.h"

enum { ARENA_FIRST = 64 << 10, ARENA_MOST = 512 << 20 };

static const struct command *find_command(struct str group, struct str name)
{
    const struct command *k;
    for (size_t i = 0; (k = command_at(i)) != NULL; i++) {
        bool same_group =
            k->group == NULL ? str_is_absent(group) : str_equal(group, str_from(k->group));
        if (same_group && str_equal(name, str_from(k->name))) return k;
    }
    return NULL;
}

static bool is_group(struct str word)
{
    const struct command *k;
    for (size_t i = 0; (k = command_at(i)) != NULL; i++)
        if (k->group != NULL && str_equal(word, str_from(k->group))) return true;
    return false;
}

/* The first word that `word` may misspell: a group, or a name within `group`. */
static const char *nearest_word(struct str group, struct str word)
{
    const struct command *k;
    const char *best = NULL;
    unsigned least = word.size < 4 ? 2 : 3;
    for (size_t i = 0; (k = command_at(i)) != NULL; i++) {
        bool inside = k->group != NULL && str_equal(group, str_from(k->group));
        if (!str_is_absent(group) && !inside) continue;
        const char *candidate = str_is_absent(group) && k->group != NULL ? k->group : k->name;
        unsigned distance = str_edits(word, str_from(candidate));
        if (*candidate == '\0' || distance >= least) continue;
        least = distance;
        best = candidate;
    }
    return best;
}

static int unknown_command(struct cli *c, struct str group, struct str word)
{
    const char *near = nearest_word(group, word);
    word = text_shown(&c->arena, word.size > 40 ? str_of(word.bytes, 40) : word);
    const char *blank = group.size > 0 ? " " : "";
    if (near != NULL)
        return cli_complain(
            c, USAGE, "there is no command \"%.*s%s%.*s\"; did you mean writ %.*s%s%s?",
            STR_FORMAT(group), blank, STR_FORMAT(word), STR_FORMAT(group), blank, near);
    return cli_complain(c, USAGE, "there is no command \"%.*s%s%.*s\"; writ --help lists all",
                        STR_FORMAT(group), blank, STR_FORMAT(word));
}

/* Where a program is: as the flag names it, or else the variable, which has the name of the other
 * program's option. `former` is the variable of earlier versions. */
static struct str address_of(struct cli *c, const struct arguments *a, const char *flag,
                             const char *variable, const char *former, const char *otherwise)
{
    struct str given = argument_text(a, flag);
    if (str_is_empty(given)) given = environment_value(c, variable);
    if (!str_is_absent(given)) return given;
    given = environment_value(c, former);
    if (str_is_absent(given)) return str_from(otherwise);
    fprintf(c->err,
            "writ: %s is now called %s: rename it, because the next version does not read the "
            "former name\n",
            former, variable);
    return given;
}

static struct str file_of(struct cli *c, const struct arguments *a, const char *flag,
                          const char *variable)
{
    struct str given = argument_text(a, flag);
    return str_is_empty(given) ? environment_value(c, variable) : given;
}

static void take_globals(struct cli *c, const struct arguments *a)
{
    c->engine =
        address_of(c, a, "engine", "WRIT_ENGINE_URL", "WRIT_ENGINE", "http://127.0.0.1:8080");
    c->platform =
        address_of(c, a, "platform", "WRIT_PLATFORM_URL", "WRIT_PLATFORM", "http://127.0.0.1:9090");
    c->ca_file = file_of(c, a, "tls-ca-file", "WRIT_TLS_CA_FILE");
    c->cert_file = file_of(c, a, "tls-cert-file", "WRIT_TLS_CERT_FILE");
    c->cert_key_file = file_of(c, a, "tls-key-file", "WRIT_TLS_KEY_FILE");
    c->insecure_peers = argument_given(a, "tls-insecure-peers");
    c->key_file = argument_text(a, "key-file");
    c->tenant = argument_text(a, "tenant");
    c->json = argument_given(a, "json");
}

static int check_words(struct cli *c, const struct command *k, const struct arguments *a)
{
    const char *group = k->group == NULL ? "" : k->group, *blank = k->group == NULL ? "" : " ";
    if (a->positional_count < k->words_least)
        return cli_complain(c, USAGE, "an argument is missing: writ %s%s%s %s", group, blank,
                            k->name, k->usage);
    if (a->positional_count > k->words_most)
        return cli_complain(c, USAGE, "\"%s\" is one word too many: writ %s%s%s %s",
                            a->positionals[k->words_most], group, blank, k->name, k->usage);
    for (size_t i = 0; i < a->positional_count; i++)
        if (*a->positionals[i] == '\0')
            return cli_complain(c, USAGE, "an argument is empty: writ %s%s%s %s", group, blank,
                                k->name, k->usage);
    return DONE;
}

static int no_command(struct cli *c, const struct arguments *a)
{
    if (argument_given(a, "version")) {
        fprintf(c->out, "writ %s\n", WRIT_VERSION);
        return DONE;
    }
    bool asked = argument_given(a, "help");
    help_all(asked ? c->out : c->err);
    return asked ? DONE : USAGE;
}

/* Reads the rest of the line, with the command's flags and the global flags. */
static int run_command(struct cli *c, const struct command *k, struct arguments *a, int argc,
                       char **argv, int at)
{
    struct fault f;
    arguments_know(a, k->flags);
    a->positional_count = 0; /* the words of the command were read before */
    if (arguments_read(a, argc, argv, &at, false, &f) != ERR_OK)
        return cli_complain_fault(c, USAGE, &f);
    if (argument_given(a, "help")) {
        help_command(c->out, k);
        return DONE;
    }
    if (argument_given(a, "version")) return no_command(c, a);
    int code = check_words(c, k, a);
    if (code != DONE) return code;
    take_globals(c, a);
    return k->run(c, a);
}

static int run(struct cli *c, int argc, char **argv)
{
    struct arguments a = {0};
    struct fault f;
    int at = 1;
    arguments_know(&a, global_flags);
    if (arguments_read(&a, argc, argv, &at, true, &f) != ERR_OK)
        return cli_complain_fault(c, USAGE, &f);
    struct str word = argument_at(&a, 0);
    while (str_equal(word, STR("help"))) { /* writ help key create = writ key create --help */
        a.positional_count = 0;
        arguments_give(&a, "help");
        if (arguments_read(&a, argc, argv, &at, true, &f) != ERR_OK)
            return cli_complain_fault(c, USAGE, &f);
        word = argument_at(&a, 0);
    }
    if (str_is_absent(word)) return no_command(c, &a);
    if (!is_group(word)) {
        const struct command *k = find_command((struct str){0}, word);
        return k == NULL ? unknown_command(c, (struct str){0}, word)
                         : run_command(c, k, &a, argc, argv, at);
    }
    if (arguments_read(&a, argc, argv, &at, true, &f) != ERR_OK)
        return cli_complain_fault(c, USAGE, &f);
    struct str name = argument_at(&a, 1);
    if (str_is_absent(name)) {
        bool asked = argument_given(&a, "help");
        const struct command *alone = asked ? NULL : find_command(word, STR(""));
        if (alone != NULL) return run_command(c, alone, &a, argc, argv, at);
        help_group(asked ? c->out : c->err, word);
        return asked ? DONE : USAGE;
    }
    const struct command *k = find_command(word, name);
    return k == NULL ? unknown_command(c, word, name) : run_command(c, k, &a, argc, argv, at);
}

static unsigned terminal_width(FILE *out)
{
    struct winsize size;
    int fd = fileno(out);
    if (fd < 0 || !isatty(fd)) return 0;
    return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col >= 40 ? size.ws_col : 80;
}

int cli_run(int argc, char **argv, char **environment, FILE *out, FILE *err)
{
    struct cli c = {
        .out = out, .err = err, .environment = environment, .width = terminal_width(out)};
    c.colours = c.width > 0 && str_is_absent(environment_value(&c, "NO_COLOR"));
    arena_init(&c.arena, ARENA_FIRST, ARENA_MOST);
    /* Output is UTF-8 in every locale. Only the width of characters is taken from the user's. */
    locale_t utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
    if (utf8 != (locale_t)0) uselocale(utf8);
    int code = run(&c, argc, argv);
    if (!print_end(out) && code == DONE)
        code = cli_complain(&c, REFUSED, "the output could not be written");
    http_client_destroy(c.clients[SIDE_ENGINE]);
    http_client_destroy(c.clients[SIDE_PLATFORM]);
    tls_destroy(c.tls);
    arena_fini(&c.arena);
    if (utf8 != (locale_t)0) {
        uselocale(LC_GLOBAL_LOCALE);
        freelocale(utf8);
    }
    return code;
}

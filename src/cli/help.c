/* help.c - the list of all commands, and the help texts made from their rows. */
#include "cli/cli.h"

const struct flag global_flags[] = {
    {"engine", "URL", "the engine (or WRIT_ENGINE_URL; default http://127.0.0.1:8080)"},
    {"platform", "URL", "the platform (or WRIT_PLATFORM_URL; default http://127.0.0.1:9090)"},
    {"key-file", "FILE", "file that holds the API key, mode 0600 (otherwise WRIT_KEY)"},
    {"tls-ca-file", "FILE", "authorities that https:// needs (or WRIT_TLS_CA_FILE)"},
    {"tls-cert-file", "FILE", "own certificate (or WRIT_TLS_CERT_FILE)"},
    {"tls-key-file", "FILE", "its private key (or WRIT_TLS_KEY_FILE)"},
    {"tls-insecure-peers", NULL, "do not verify https:// peers: for a trial only"},
    {"tenant", "NAME", "tenant to act in; required if the key is for all tenants (*)"},
    {"json", NULL, "print JSON, for programs"},
    {"help", NULL, "print this"},
    {"version", NULL, "print the version"},
    {NULL, NULL, NULL}};

#define COMMAND_TABLE(name) name,
static const struct command *const tables[] = {COMMAND_TABLES(COMMAND_TABLE)};
#undef COMMAND_TABLE

const struct command *command_at(size_t index)
{
    for (size_t t = 0; t < sizeof tables / sizeof tables[0]; t++)
        for (const struct command *k = tables[t]; k->name != NULL; k++)
            if (index-- == 0) return k;
    return NULL;
}

static void print_flags(FILE *out, const struct flag *flags)
{
    for (; flags != NULL && flags->name != NULL; flags++) {
        char left[64];
        snprintf(left, sizeof left, "--%s%s%s", flags->name, flags->value == NULL ? "" : " ",
                 flags->value == NULL ? "" : flags->value);
        fprintf(out, "  %-24s %s\n", left, flags->help);
    }
}

static void print_globals(FILE *out)
{
    fputs("\nOptions of every command:\n", out);
    print_flags(out, global_flags);
    fputs(
        "\nA key is never written on a command line, because other users of the machine can read that\n"
        "(ps shows it), and shells keep it in their history.\n",
        out);
}

static void command_words(const struct command *k, char to[64])
{
    snprintf(to, 64, "%s%s%s", k->group == NULL ? "" : k->group,
             k->group == NULL || *k->name == '\0' ? "" : " ", k->name);
}

static void print_summaries(FILE *out, struct str group)
{
    const struct command *k;
    for (size_t i = 0; (k = command_at(i)) != NULL; i++) {
        if (!str_is_absent(group) && (k->group == NULL || !str_equal(group, str_from(k->group))))
            continue;
        char words[64];
        command_words(k, words);
        fprintf(out, "  %-18s %s\n", words, k->summary);
    }
}

void help_all(FILE *out)
{
    fputs("writ is the command line of writ-engine and writ-platform.\n\n"
          "Usage: writ COMMAND [WORDS] [--option value …]\n\n"
          "Commands (writ COMMAND --help shows the details):\n",
          out);
    print_summaries(out, (struct str){0});
    print_globals(out);
    fputs(
        "\nExit status: 0 done, allowed or valid; 1 refused, denied or invalid; 2 the command line is\n"
        "wrong; 3 a program cannot be reached.\n",
        out);
}

void help_group(FILE *out, struct str group)
{
    fprintf(out, "Usage: writ %.*s COMMAND …\n\nCommands:\n", STR_FORMAT(group));
    print_summaries(out, group);
    print_globals(out);
}

void help_command(FILE *out, const struct command *k)
{
    char words[64];
    command_words(k, words);
    fprintf(out, "writ %s: %s\n\nUsage: writ %s%s%s%s\n", words, k->summary, words,
            *k->usage == '\0' ? "" : " ", k->usage, k->flags == NULL ? "" : " [--option value …]");
    if (k->text != NULL) fprintf(out, "\n%s\n", k->text);
    if (k->flags != NULL) fputs("\nOptions:\n", out);
    print_flags(out, k->flags);
    print_globals(out);
}

#include "hook/options.h"

#include <stdlib.h>

#include "config/config.h"

static const struct flag flags[] = {
    {"engine", "URL",
     "the engine: unix:/path, https://host:port or http://host:port (or WRIT_ENGINE_URL)"},
    {"key-file", "FILE", "file that holds the API key or token, mode 0600"},
    {"actor", "NAME", "the agent's name in requests (default: the only actor of the key)"},
    {"deadline", "TIME", "deny after this time, such as 25s or 10m (default 25s)"},
    {"grant", NULL, "an allow also skips the agent's own prompt"},
    {"grant-compute", NULL, "pass a safe call on where that skips the agent's own prompt"},
    {"tls-ca-file", "FILE", "authorities that https:// needs (or WRIT_TLS_CA_FILE)"},
    {"tls-cert-file", "FILE", "own certificate (or WRIT_TLS_CERT_FILE)"},
    {"tls-key-file", "FILE", "its private key (or WRIT_TLS_KEY_FILE)"},
    {"install", NULL, "write the hook into the agent's settings, with these options"},
    {"managed", NULL, "… into those of the machine, which a user cannot change"},
    {"to", "FILE", "… into this file"},
    {"print", NULL, "print what --install would write"},
    {"uninstall", NULL, "take the hook out of the agent's settings"},
    {"check", NULL, "run the installed hook with a call that has to be denied"},
    {"help", NULL, "print this"},
    {"version", NULL, "print the version"},
    {NULL, NULL, NULL}};

const struct flag *hook_flags(void) { return flags; }

static struct str given_or(const struct arguments *a, const char *flag, const char *variable)
{
    struct str given = argument_text(a, flag);
    return str_is_absent(given) ? str_from(getenv(variable)) : given;
}

static enum err read_task(const struct arguments *a, struct hook_options *ret, struct fault *f)
{
    static const struct {
        const char *flag;
        enum hook_task task;
    } tasks[] = {{"install", HOOK_INSTALL}, {"uninstall", HOOK_UNINSTALL},
                 {"print", HOOK_PRINT},     {"check", HOOK_CHECK},
                 {"help", HOOK_HELP},       {"version", HOOK_VERSION}};
    const char *first = NULL;
    for (size_t i = 0; i < sizeof tasks / sizeof tasks[0]; i++) {
        if (!argument_given(a, tasks[i].flag)) continue;
        if (first != NULL)
            return fault_set(f, ERR_BAD_VALUE, "", "--%s and --%s exclude each other", first,
                             tasks[i].flag);
        first = tasks[i].flag;
        ret->task = tasks[i].task;
    }
    bool of_settings = ret->task != HOOK_ANSWER && ret->task != HOOK_HELP;
    if (!of_settings && (ret->managed || !str_is_absent(ret->to)))
        return fault_set(f, ERR_BAD_VALUE, "", "--%s belongs to --install",
                         ret->managed ? "managed" : "to");
    return ERR_OK;
}

static enum err find_agent(const struct arguments *a, struct hook_options *ret, struct fault *f)
{
    struct str name = argument_at(a, 0);
    if (str_is_absent(name))
        return fault_set(f, ERR_BAD_VALUE, "",
                         "no agent is named: writ-hook AGENT; --help lists all");
    ret->agent = hook_agent_find(name);
    if (ret->agent == NULL)
        return fault_set(f, ERR_BAD_VALUE, "", "\"%.*s\" is no agent: --help lists all",
                         (int)(name.size > 40 ? 40 : name.size), name.bytes);
    if (a->positional_count > 1)
        return fault_set(f, ERR_BAD_VALUE, "", "a word too many: writ-hook AGENT");
    return ERR_OK;
}

static enum err check_values(const struct arguments *a, struct hook_options *ret, struct fault *f)
{
    struct str deadline = argument_text(a, "deadline");
    if (!str_is_absent(deadline) &&
        (!config_span(deadline, &ret->deadline_ms) || ret->deadline_ms < 100 ||
         ret->deadline_ms > HOOK_DEADLINE_MOST_MS))
        return fault_set(f, ERR_BAD_VALUE, "", "--deadline: a time of 100ms to 24h, such as 25s");
    bool needs_engine = ret->task != HOOK_UNINSTALL && ret->task != HOOK_CHECK;
    if (needs_engine && (str_is_empty(ret->engine) || str_is_empty(ret->key_file)))
        return fault_set(f, ERR_BAD_VALUE, "", "%s is missing",
                         str_is_empty(ret->engine) ? "--engine" : "--key-file");
    if (ret->grant && !ret->agent->can_grant)
        return fault_set(f, ERR_BAD_VALUE, "", "--grant: a hook of %s cannot grant",
                         ret->agent->title);
    return ERR_OK;
}

enum err hook_options_read(int argc, char **argv, struct hook_options *ret, struct fault *f)
{
    struct arguments a = {0};
    int at = 1;
    *ret = (struct hook_options){.deadline_ms = HOOK_DEADLINE_MS};
    arguments_know(&a, flags);
    enum err err = arguments_read(&a, argc, argv, &at, false, f);
    if (err != ERR_OK) {
        ret->agent = hook_agent_find(argument_at(&a, 0));
        return err;
    }
    ret->engine = given_or(&a, "engine", "WRIT_ENGINE_URL");
    ret->key_file = argument_text(&a, "key-file");
    ret->actor = argument_text(&a, "actor");
    ret->ca_file = given_or(&a, "tls-ca-file", "WRIT_TLS_CA_FILE");
    ret->cert_file = given_or(&a, "tls-cert-file", "WRIT_TLS_CERT_FILE");
    ret->cert_key_file = given_or(&a, "tls-key-file", "WRIT_TLS_KEY_FILE");
    ret->grant = argument_given(&a, "grant");
    ret->grant_compute = argument_given(&a, "grant-compute");
    ret->managed = argument_given(&a, "managed");
    ret->to = argument_text(&a, "to");
    err = read_task(&a, ret, f);
    if (err != ERR_OK || ret->task == HOOK_HELP || ret->task == HOOK_VERSION) return err;
    err = find_agent(&a, ret, f);
    return err == ERR_OK ? check_values(&a, ret, f) : err;
}

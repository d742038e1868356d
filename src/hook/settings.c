#include "hook/settings.h"

#include "hook/guard.h"
#include "json/json.h"

/* An entry is the hook's if its line has this word. */
#define MARK "writ-hook"

static const char toml_head[] = "# Written by " MARK " --install codex --managed.\n";

static const struct settings_place places[] = {
    {"claude", false, ".claude/settings.json", SETTINGS_JSON},
    {"claude", true, "/etc/claude-code/managed-settings.json", SETTINGS_JSON},
    {"codex", false, ".codex/hooks.json", SETTINGS_JSON},
    {"codex", true, "/etc/codex/requirements.toml", SETTINGS_TOML},
    {"gemini", false, ".gemini/settings.json", SETTINGS_JSON},
    {"gemini", true, "/etc/gemini-cli/settings.json", SETTINGS_JSON},
    {"copilot", false, ".copilot/hooks/writ.json", SETTINGS_OWN_JSON},
    {"copilot", true, "/etc/github-copilot/policy.d/writ.json", SETTINGS_OWN_JSON},
    {"cursor", false, ".cursor/hooks.json", SETTINGS_JSON},
    {"cursor", true, "/etc/cursor/hooks.json", SETTINGS_JSON},
};

const struct settings_place *settings_place(const struct hook_agent *agent, bool managed)
{
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++)
        if (str_equal(str_from(places[i].agent), str_from(agent->name)) &&
            places[i].managed == managed)
            return &places[i];
    return NULL;
}

static bool is_agent(const struct settings_place *p, const char *name)
{
    return str_equal(str_from(p->agent), str_from(name));
}

/* ---- what is wrong with a file ---- */

static enum err wrong(struct fault *f, const char *where, const char *instead)
{
    return fault_set(f, ERR_BAD_VALUE, "",
                     "%s: expected %s. The agent may drop the whole file, with the hook in it: "
                     "correct it first",
                     where, instead);
}

static const struct {
    const char *agent, *name; /* a member of the root */
    enum json_type type;
    const char *instead;
} known[] = {
    {"claude", "permissions", JSON_OBJECT, "an object"},
    {"claude", "env", JSON_OBJECT, "an object"},
    {"claude", "model", JSON_STRING, "a text"},
    {"claude", "apiKeyHelper", JSON_STRING, "a text"},
    {"claude", "cleanupPeriodDays", JSON_NUMBER, "a number"},
    {"claude", "includeCoAuthoredBy", JSON_TRUE, "true or false"},
    {"claude", "disableAllHooks", JSON_TRUE, "true or false"},
    {"claude", "allowManagedHooksOnly", JSON_TRUE, "true or false"},
    {"claude", "statusLine", JSON_OBJECT, "an object"},
    {"gemini", "hooksConfig", JSON_OBJECT, "an object"},
    {"gemini", "security", JSON_OBJECT, "an object"},
    {"gemini", "general", JSON_OBJECT, "an object"},
    {"gemini", "tools", JSON_OBJECT, "an object"},
    {"gemini", "mcpServers", JSON_OBJECT, "an object"},
    {"codex", "description", JSON_STRING, "a text"},
    {"cursor", "version", JSON_NUMBER, "a number"},
};

static bool has_type(const struct json *v, enum json_type type)
{
    return v == NULL || v->type == type || (type == JSON_TRUE && v->type == JSON_FALSE);
}

static enum err check_root(const struct settings_place *p, const struct json *root, struct fault *f)
{
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (is_agent(p, known[i].agent) &&
            !has_type(json_get(root, str_from(known[i].name)), known[i].type))
            return wrong(f, known[i].name, known[i].instead);
    for (const struct json *m = root->child; m != NULL && is_agent(p, "codex"); m = m->next)
        if (!str_equal(m->key, STR("hooks")) && !str_equal(m->key, STR("description")))
            return fault_set(f, ERR_BAD_VALUE, "",
                             "the member %.*s is not known to Codex, which would drop the whole "
                             "file: remove it first",
                             STR_FORMAT(str_cut(m->key, 60)));
    const struct json *disabled = json_get(json_get(root, STR("hooksConfig")), STR("disabled"));
    for (const struct json *v = json_is_array(disabled) ? disabled->child : NULL; v != NULL;
         v = v->next)
        if (is_agent(p, "gemini") && json_is_string(v) &&
            memmem(v->string.bytes, v->string.size, MARK, sizeof MARK - 1) != NULL)
            return fault_set(f, ERR_BAD_VALUE, "", "hooksConfig.disabled switches the hook off");
    const struct json *off = json_get(root, STR("disableAllHooks"));
    if (is_agent(p, "claude") && off != NULL && off->type == JSON_TRUE)
        return fault_set(f, ERR_BAD_VALUE, "", "disableAllHooks is true: no hook would run");
    return ERR_OK;
}

static bool is_texts(const struct json *list)
{
    for (const struct json *v = json_is_array(list) ? list->child : NULL; v != NULL; v = v->next)
        if (!json_is_string(v)) return false;
    return list == NULL || json_is_array(list);
}

static enum err check_permissions(const struct json *root, struct fault *f)
{
    const struct json *p = json_get(root, STR("permissions"));
    static const char *const lists[] = {"allow", "deny", "ask", "additionalDirectories"};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        if (!is_texts(json_get(p, str_from(lists[i]))))
            return wrong(f, lists[i], "a list of texts in permissions");
    if (!has_type(json_get(p, STR("defaultMode")), JSON_STRING))
        return wrong(f, "defaultMode", "a text in permissions");
    const struct json *env = json_get(root, STR("env"));
    for (const struct json *v = env == NULL ? NULL : env->child; v != NULL; v = v->next)
        if (!json_is_string(v)) return wrong(f, "env", "texts only");
    return ERR_OK;
}

/* One hook: an object with a command. */
static enum err check_hook(const struct settings_place *p, const struct json *hook, struct fault *f)
{
    static const char *const texts[] = {"type", "command", "bash", "name", "description", "url"};
    if (!json_is_object(hook)) return wrong(f, "hooks", "an object for each hook");
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (!has_type(json_get(hook, str_from(texts[i])), JSON_STRING))
            return wrong(f, texts[i], "a text in each hook");
    const struct json *timeout = json_get(hook, STR("timeout"));
    bool whole = !json_is_number(timeout) || timeout->number == (double)(int64_t)timeout->number;
    if (!has_type(timeout, JSON_NUMBER) || (is_agent(p, "codex") && !whole))
        return wrong(f, "timeout", is_agent(p, "codex") ? "a whole number" : "a number");
    const struct json *on_failure = json_get(hook, STR("onFailure"));
    if (is_agent(p, "claude") && on_failure != NULL &&
        !str_equal(json_text(hook, STR("onFailure")), STR("block")))
        return wrong(f, "onFailure", "\"block\"");
    return ERR_OK;
}

static bool is_nested(const struct settings_place *p) { return !is_agent(p, "cursor"); }

static enum err check_group(const struct settings_place *p, const struct json *group,
                            struct fault *f)
{
    if (!is_nested(p)) return check_hook(p, group, f);
    const struct json *hooks = json_get(group, STR("hooks"));
    if (!json_is_object(group) || !json_is_array(hooks))
        return wrong(f, "hooks", "objects with a list hooks below each event");
    if (!has_type(json_get(group, STR("matcher")), JSON_STRING))
        return wrong(f, "matcher", "a text");
    for (const struct json *h = hooks->child; h != NULL; h = h->next) {
        enum err err = check_hook(p, h, f);
        if (err != ERR_OK) return err;
    }
    return ERR_OK;
}

static enum err check_hooks(const struct settings_place *p, const struct json *hooks,
                            struct fault *f)
{
    if (hooks == NULL) return ERR_OK;
    if (!json_is_object(hooks)) return wrong(f, "hooks", "an object");
    for (const struct json *event = hooks->child; event != NULL; event = event->next) {
        if (!json_is_array(event)) return wrong(f, "hooks", "a list for each event");
        for (const struct json *group = event->child; group != NULL; group = group->next) {
            enum err err = check_group(p, group, f);
            if (err != ERR_OK) return err;
        }
    }
    return ERR_OK;
}

static enum err read_root(const struct settings_place *p, struct str text, struct arena *arena,
                          struct json **ret, struct fault *f)
{
    const struct json_options options = {.depth_max = JSON_DEPTH_CAP, .nul_anywhere = true};
    struct fault why;
    if (json_read(text, &options, arena, ret, &why) != ERR_OK)
        return fault_set(f, ERR_BAD_VALUE, "", "it is not strict JSON: %s", why.text);
    if (!json_is_object(*ret)) return wrong(f, "the file", "an object");
    enum err err = check_root(p, *ret, f);
    if (err == ERR_OK && is_agent(p, "claude")) err = check_permissions(*ret, f);
    return err == ERR_OK ? check_hooks(p, json_get(*ret, STR("hooks")), f) : err;
}

/* ---- the entry ---- */

static const char *event_name(const struct hook_agent *agent)
{
    return agent->event == NULL ? "preToolUse" : agent->event;
}

static void put_entry(struct buf *out, const struct settings_place *p, const struct hook_options *o,
                      struct str line)
{
    uint64_t seconds = guard_seconds(o) + HOOK_AGENT_SECONDS;
    if (is_agent(p, "copilot")) {
        buf_put_literal(out, "{\"type\": \"command\", \"bash\": ");
        json_put_string(out, line);
        buf_printf(out, ", \"timeoutSec\": %llu}", (unsigned long long)seconds);
        return;
    }
    if (is_agent(p, "cursor")) {
        buf_put_literal(out, "{\"command\": ");
        json_put_string(out, line);
        buf_printf(out, ", \"timeout\": %llu, \"failClosed\": true}", (unsigned long long)seconds);
        return;
    }
    buf_printf(out, "{\"matcher\": \"%s\", \"hooks\": [{\"type\": \"command\", \"command\": ",
               is_agent(p, "codex") ? ".*" : "*");
    json_put_string(out, line);
    buf_printf(out, ", \"timeout\": %llu%s%s}]}", (unsigned long long)seconds,
               is_agent(p, "gemini") ? "000" : "",
               is_agent(p, "claude") ? ", \"onFailure\": \"block\"" : "");
}

/* The line of a group, if the group is the hook's; else absent. */
static struct str line_of(const struct json *group)
{
    const struct json *hooks = json_get(group, STR("hooks"));
    const struct json *hook = json_is_array(hooks) ? hooks->child : group;
    struct str line = json_text(hook, STR("command"));
    if (str_is_absent(line)) line = json_text(hook, STR("bash"));
    bool is_ours = !str_is_absent(line) && memmem(line.bytes, line.size, MARK, sizeof MARK - 1);
    return is_ours ? line : (struct str){0};
}

/* ---- edits ---- */

struct edit { /* of one member of an object; text absent: it is removed */
    struct str name, text;
};

static const struct edit *edit_of(const struct edit *edits, size_t count, struct str name)
{
    for (size_t i = 0; i < count; i++)
        if (str_equal(edits[i].name, name)) return &edits[i];
    return NULL;
}

static void put_member(struct buf *out, const char *indent, bool *first, struct str name,
                       struct str text)
{
    buf_put(out, *first ? STR("{\n") : STR(",\n"));
    *first = false;
    buf_put(out, str_from(indent));
    json_put_string(out, name);
    buf_put_literal(out, ": ");
    buf_put(out, text);
}

/* The object with these edits; the other members as they are in the file, and in its order. */
static void put_object(struct buf *out, const struct json *object, const char *indent,
                       const struct edit *edits, size_t count)
{
    bool first = true;
    for (const struct json *m = object == NULL ? NULL : object->child; m != NULL; m = m->next) {
        const struct edit *e = edit_of(edits, count, m->key);
        struct str text = e == NULL ? m->raw : e->text;
        if (!str_is_absent(text)) put_member(out, indent, &first, m->key, text);
    }
    for (size_t i = 0; i < count; i++)
        if (!str_is_absent(edits[i].text) && json_get(object, edits[i].name) == NULL)
            put_member(out, indent, &first, edits[i].name, edits[i].text);
    if (first) buf_put_byte(out, '{');
    buf_put_byte(out, '\n');
    buf_put(out, str_skip(str_from(indent), 2));
    buf_put_byte(out, '}');
}

/* The list of an event with the entry in place of an earlier one, or at its end: agents number the
 * others by their place. Returns the number of groups. */
static size_t put_list(struct buf *out, const struct json *list, struct str entry)
{
    size_t count = 0;
    bool placed = str_is_absent(entry);
    buf_put_byte(out, '[');
    for (const struct json *g = list == NULL ? NULL : list->child; g != NULL; g = g->next) {
        bool is_ours = !str_is_absent(line_of(g));
        if (is_ours && placed) continue;
        buf_put(out, count++ > 0 ? STR(",\n      ") : STR("\n      "));
        buf_put(out, is_ours ? entry : g->raw);
        placed |= is_ours;
    }
    if (!placed) {
        buf_put(out, count++ > 0 ? STR(",\n      ") : STR("\n      "));
        buf_put(out, entry);
    }
    buf_put_literal(out, "\n    ]");
    return count;
}

static struct buf text_buf(void)
{
    struct buf b;
    buf_init(&b, 4 << 10, 64 << 20);
    return b;
}

/* Writes the root with the entry, or (absent) without it. */
static void put_root(const struct settings_place *p, const struct hook_options *o,
                     const struct json *root, struct str entry, struct buf *out)
{
    struct str event = str_from(event_name(o->agent));
    const struct json *hooks = json_get(root, STR("hooks"));
    struct buf list = text_buf(), events = text_buf(), config = text_buf();
    bool removes = str_is_absent(entry);
    size_t groups = put_list(&list, json_get(hooks, event), entry);
    const struct edit of_event = {event, groups == 0 ? (struct str){0} : buf_view(&list)};
    put_object(&events, hooks, "    ", &of_event, 1);
    const struct edit on = {STR("enabled"), STR("true")};
    put_object(&config, json_get(root, STR("hooksConfig")), "    ", &on, 1);

    bool is_empty = removes && groups == 0 && hooks->count == 1;
    struct edit edits[3] = {{STR("hooks"), is_empty ? (struct str){0} : buf_view(&events)}};
    size_t count = 1;
    if (!removes && is_agent(p, "gemini"))
        edits[count++] = (struct edit){STR("hooksConfig"), buf_view(&config)};
    if (is_agent(p, "claude") && p->managed)
        edits[count++] =
            (struct edit){STR("allowManagedHooksOnly"), removes ? (struct str){0} : STR("true")};
    if (!removes && (is_agent(p, "cursor") || is_agent(p, "copilot")))
        edits[count++] = (struct edit){STR("version"), STR("1")};
    put_object(out, root, "  ", edits, count);
    buf_put_byte(out, '\n');
    if (list.overflow || events.overflow || config.overflow) out->overflow = true;
    buf_fini(&list);
    buf_fini(&events);
    buf_fini(&config);
}

static void put_toml(const struct hook_options *o, struct str line, struct buf *out)
{
    buf_put(out, str_from(toml_head));
    buf_put_literal(out, "[features]\nhooks = true\n\n[hooks]\nmanaged_dir = \"/usr/lib/writ\"\n\n"
                         "[[hooks.PreToolUse]]\nmatcher = \".*\"\n\n[[hooks.PreToolUse.hooks]]\n"
                         "type = \"command\"\ncommand = ");
    json_put_string(out, line); /* its escapes are TOML's as well */
    buf_printf(out, "\ntimeout = %llu\n",
               (unsigned long long)guard_seconds(o) + HOOK_AGENT_SECONDS);
}

/* A file that the hook has alone is replaced only if the hook has written it. */
static enum err check_own(const struct settings_place *p, struct str before, struct fault *f)
{
    if (str_is_absent(before)) return ERR_OK;
    bool is_ours = p->kind == SETTINGS_TOML
                       ? str_starts(before, str_from(toml_head))
                       : memmem(before.bytes, before.size, MARK, sizeof MARK - 1) != NULL;
    if (is_ours) return ERR_OK;
    return fault_set(f, ERR_BAD_VALUE, "",
                     "it exists, and was not written by this program: add the hook to it by hand "
                     "(--print shows it)");
}

enum err settings_with(const struct settings_place *p, const struct hook_options *o,
                       struct str line, struct str before, struct arena *arena, struct buf *out,
                       struct fault *f)
{
    struct json *root = NULL;
    enum err err = p->kind == SETTINGS_JSON
                       ? (str_is_absent(before) ? ERR_OK : read_root(p, before, arena, &root, f))
                       : check_own(p, before, f);
    if (err != ERR_OK) return err;
    if (p->kind == SETTINGS_TOML) {
        put_toml(o, line, out);
    } else {
        struct buf entry = text_buf();
        put_entry(&entry, p, o, line);
        put_root(p, o, root, buf_view(&entry), out);
        if (entry.overflow) out->overflow = true;
        buf_fini(&entry);
    }
    return out->overflow ? fault_plain(f, ERR_FULL) : ERR_OK;
}

static enum err has_none(struct fault *f)
{
    return fault_set(f, ERR_NOT_FOUND, "", "it has no entry of " MARK);
}

enum err settings_without(const struct settings_place *p, const struct hook_options *o,
                          struct str before, struct arena *arena, struct buf *out, struct fault *f)
{
    struct str line;
    enum err err = settings_line(p, o->agent, before, arena, &line, f);
    if (err != ERR_OK || p->kind != SETTINGS_JSON) return err;
    struct json *root;
    err = read_root(p, before, arena, &root, f);
    if (err != ERR_OK) return err;
    put_root(p, o, root, (struct str){0}, out);
    return out->overflow ? fault_plain(f, ERR_FULL) : ERR_OK;
}

/* The command of the file that put_toml() wrote. */
static struct str toml_line(struct str text)
{
    static const char before[] = "\ncommand = ";
    const char *at = memmem(text.bytes, text.size, before, sizeof before - 1);
    if (at == NULL) return (struct str){0};
    struct str rest = str_skip(text, (size_t)(at - text.bytes) + sizeof before - 1);
    return str_of(rest.bytes, str_find(rest, '\n'));
}

enum err settings_line(const struct settings_place *p, const struct hook_agent *agent,
                       struct str text, struct arena *arena, struct str *ret, struct fault *f)
{
    const struct json_options options = {.depth_max = JSON_DEPTH_CAP, .nul_anywhere = true};
    bool is_toml = p->kind == SETTINGS_TOML;
    struct str json = is_toml ? toml_line(text) : text;
    struct json *root;
    struct fault why;
    if (str_is_absent(json)) return has_none(f);
    if (json_read(json, &options, arena, &root, &why) != ERR_OK)
        return fault_set(f, ERR_BAD_VALUE, "", "it is not strict JSON: %s", why.text);
    if (is_toml) {
        *ret = root->type == JSON_STRING ? root->string : (struct str){0};
        return str_is_absent(*ret) ? has_none(f) : ERR_OK;
    }
    const struct json *list = json_get(json_get(root, STR("hooks")), str_from(event_name(agent)));
    for (const struct json *g = json_is_array(list) ? list->child : NULL; g != NULL; g = g->next) {
        *ret = line_of(g);
        if (!str_is_absent(*ret)) return ERR_OK;
    }
    return has_none(f);
}

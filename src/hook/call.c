#include "hook/call.h"

#include "base/limits.h"

/* The first of these members that the object has. */
static const struct json *member(const struct json *object, const char *names)
{
    struct str rest = str_from(names);
    const struct json *found = NULL;
    for (struct str name; found == NULL && str_split(&rest, ' ', &name);)
        found = json_get(object, name);
    return found;
}

static bool is_plain_text(const struct json *v, size_t most)
{
    return json_is_string(v) && !v->has_nul && v->string.size > 0 &&
           str_code_points(v->string) <= most;
}

/* Ids and the folder help to find a call later. They decide nothing, so one that a request cannot
 * have is left out. */
static struct str text_of(const struct json *object, const char *names, size_t most)
{
    const struct json *v = member(object, names);
    return is_plain_text(v, most) ? v->string : (struct str){0};
}

static enum err check_event(const struct hook_agent *agent, const struct json *root,
                            struct fault *f)
{
    if (agent->event_member == NULL) return ERR_OK;
    const struct json *event = member(root, agent->event_member);
    if (json_is_string(event) && str_equal(event->string, str_from(agent->event))) return ERR_OK;
    return fault_set(f, ERR_BAD_VALUE, "",
                     "the agent's input is not that of a %s hook of %s (%s): check for which agent "
                     "and event the hook is installed",
                     agent->event, agent->title, agent->event_member);
}

enum err hook_call_read(const struct hook_agent *agent, struct str text, struct arena *arena,
                        struct hook_call *ret, struct fault *f)
{
    struct json *root;
    const struct json_options options = {.depth_max = JSON_DEPTH_CAP, .nul_anywhere = true};
    enum err err = json_read(text, &options, arena, &root, f);
    if (err != ERR_OK) return err;
    if (!json_is_object(root))
        return fault_set(f, ERR_WRONG_TYPE, "", "the agent's input is not a JSON object");
    err = check_event(agent, root, f);
    if (err != ERR_OK) return err;

    const struct json *tool = member(root, agent->tool), *input = member(root, agent->input);
    if (tool == NULL || input == NULL)
        return fault_set(f, ERR_MISSING_MEMBER, "",
                         "the agent's input has no member %s: this version of %s is not known",
                         tool == NULL ? agent->tool : agent->input, agent->title);
    if (!json_is_string(tool) || !json_is_object(input))
        return fault_set(f, ERR_WRONG_TYPE, "",
                         "the agent's %s is not %s: this version of %s is not known",
                         !json_is_string(tool) ? agent->tool : agent->input,
                         !json_is_string(tool) ? "a text" : "an object", agent->title);
    if (!is_plain_text(tool, LIMIT_ID_CHARACTERS))
        return fault_set(f, ERR_OUT_OF_RANGE, "", "%s must have 1 to %d characters and no U+0000",
                         agent->tool, LIMIT_ID_CHARACTERS);
    *ret = (struct hook_call){.tool = tool->string,
                              .input = input,
                              .call_id = text_of(root, agent->call, LIMIT_ID_CHARACTERS),
                              .session_id = text_of(root, agent->session, LIMIT_ID_CHARACTERS),
                              .cwd = text_of(root, "cwd", LIMIT_TARGET_BYTES)};
    return ERR_OK;
}

#include "hook/agents.h"

/* Of Cursor, VS Code and OpenClaw the documents were read; the programs were not run. */
static const struct hook_agent agents[] = {
    {.name = "claude",
     .title = "Claude Code",
     .form = HOOK_FORM_CLAUDE,
     .rewrite = HOOK_REWRITES,
     .can_grant = true,
     .adds_context = true,
     .event_member = "hook_event_name",
     .event = "PreToolUse",
     .tool = "tool_name",
     .input = "tool_input",
     .session = "session_id",
     .call = "tool_use_id"},
    {.name = "codex",
     .title = "Codex CLI",
     .form = HOOK_FORM_CLAUDE,
     .rewrite = HOOK_REWRITES_BY_GRANTING,
     .only_rewritten = "command",
     .event_member = "hook_event_name",
     .event = "PreToolUse",
     .tool = "tool_name",
     .input = "tool_input",
     .session = "session_id",
     .call = "tool_use_id"},
    {.name = "gemini",
     .title = "Gemini CLI",
     .form = HOOK_FORM_GEMINI,
     .rewrite = HOOK_REWRITES,
     .event_member = "hook_event_name",
     .event = "BeforeTool",
     .tool = "tool_name",
     .input = "tool_input",
     .session = "session_id",
     .call = "tool_use_id"},
    {.name = "copilot",
     .title = "Copilot CLI",
     .form = HOOK_FORM_COPILOT,
     .rewrite = HOOK_REWRITES,
     .can_grant = true,
     .tool = "toolName",
     .input = "toolArgs",
     .session = "sessionId",
     .call = "toolCallId"},
    {.name = "cursor",
     .title = "Cursor",
     .form = HOOK_FORM_CURSOR,
     .rewrite = HOOK_REWRITES_BY_GRANTING,
     .can_grant = true,
     .event_member = "hook_event_name",
     .event = "preToolUse",
     .tool = "tool_name",
     .input = "tool_input",
     .session = "conversation_id session_id",
     .call = "tool_use_id"},
    {.name = "vscode",
     .title = "VS Code",
     .form = HOOK_FORM_CLAUDE,
     .rewrite = HOOK_REWRITES_BY_GRANTING,
     .can_grant = true,
     .event_member = "hookEventName hook_event_name",
     .event = "PreToolUse",
     .tool = "tool_name",
     .input = "tool_input",
     .session = "sessionId session_id",
     .call = "tool_use_id"},
    {.name = "openclaw",
     .title = "OpenClaw",
     .form = HOOK_FORM_OPENCLAW,
     .rewrite = HOOK_REWRITES,
     .tool = "toolName",
     .input = "params",
     .session = "sessionId",
     .call = "toolCallId"},
};

/* A member that is missing here is bound, so a forgotten row makes an approval narrower. Tools of
 * MCP servers are not listed: what their members mean is not known. */
static const struct {
    const char *agent, *tool, *member;
} left_out[] = {
    {"claude", "Bash", "description"},
    {"claude", "Bash", "timeout"},
    {"claude", "Agent", "description"},
    {"claude", "Task", "description"},
    {"gemini", "run_shell_command", "description"},
    {"gemini", "replace", "instruction"},
    {"copilot", "bash", "description"},
    {"copilot", "bash", "initial_wait"},
    {"copilot", "bash", "timeout"},
    {"cursor", "Shell", "description"},
    {"cursor", "Shell", "timeout"},
    {"vscode", "runTerminalCommand", "explanation"},
    {"openclaw", "exec", "timeout"},
};

enum { AGENTS = sizeof agents / sizeof agents[0], LEFT_OUT = sizeof left_out / sizeof left_out[0] };

const struct hook_agent *hook_agent_at(size_t index)
{
    return index < AGENTS ? &agents[index] : NULL;
}

const struct hook_agent *hook_agent_find(struct str name)
{
    for (size_t i = 0; i < AGENTS; i++)
        if (str_equal(name, str_from(agents[i].name))) return &agents[i];
    return NULL;
}

bool hook_agent_leaves_out(const struct hook_agent *agent, struct str tool, struct str member)
{
    for (size_t i = 0; i < LEFT_OUT; i++)
        if (str_equal(str_from(left_out[i].agent), str_from(agent->name)) &&
            str_equal(str_from(left_out[i].tool), tool) &&
            str_equal(str_from(left_out[i].member), member))
            return true;
    return false;
}

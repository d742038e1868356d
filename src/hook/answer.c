#include "hook/answer.h"

#include "json/json.h"

static void put_head(struct buf *out, const struct hook_agent *agent)
{
    buf_put_literal(out, "{\"hookSpecificOutput\":{\"hookEventName\":");
    json_put_string(out, str_from(agent->event));
}

void answer_put_allow(struct buf *out, const struct hook_agent *agent, bool grant, struct str note)
{
    bool has_note = agent->adds_context && !str_is_empty(note);
    if (agent->form == HOOK_FORM_CLAUDE && (grant || has_note)) {
        put_head(out, agent);
        if (grant) buf_put_literal(out, ",\"permissionDecision\":\"allow\"");
        if (has_note) {
            buf_put_literal(out, ",\"additionalContext\":");
            json_put_string(out, note);
        }
        buf_put_literal(out, "}}");
    } else if (agent->form == HOOK_FORM_COPILOT && grant) {
        buf_put_literal(out, "{\"permissionDecision\":\"allow\"}");
    } else if (agent->form == HOOK_FORM_CURSOR && grant) {
        buf_put_literal(out, "{\"permission\":\"allow\"}");
    } else {
        buf_put_literal(out, "{}");
    }
}

void answer_put_deny(struct buf *out, const struct hook_agent *agent, struct str reason)
{
    switch (agent->form) {
    case HOOK_FORM_CLAUDE:
        put_head(out, agent);
        buf_put_literal(out, ",\"permissionDecision\":\"deny\",\"permissionDecisionReason\":");
        json_put_string(out, reason);
        buf_put_literal(out, "}}");
        return;
    case HOOK_FORM_GEMINI:
        buf_put_literal(out, "{\"decision\":\"deny\",\"reason\":");
        json_put_string(out, reason);
        buf_put_byte(out, '}');
        return;
    case HOOK_FORM_COPILOT:
        buf_put_literal(out, "{\"permissionDecision\":\"deny\",\"permissionDecisionReason\":");
        json_put_string(out, reason);
        buf_put_byte(out, '}');
        return;
    case HOOK_FORM_CURSOR:
        buf_put_literal(out, "{\"permission\":\"deny\",\"agent_message\":");
        json_put_string(out, reason);
        buf_put_literal(out, ",\"user_message\":");
        json_put_string(out, reason);
        buf_put_byte(out, '}');
        return;
    case HOOK_FORM_OPENCLAW:
        buf_put_literal(out, "{\"block\":true,\"blockReason\":");
        json_put_string(out, reason);
        buf_put_byte(out, '}');
        return;
    }
}

void answer_put_rewrite(struct buf *out, const struct hook_agent *agent, bool grant,
                        struct str input)
{
    grant |= agent->rewrite == HOOK_REWRITES_BY_GRANTING;
    switch (agent->form) {
    case HOOK_FORM_CLAUDE:
        put_head(out, agent);
        if (grant) buf_put_literal(out, ",\"permissionDecision\":\"allow\"");
        buf_put_literal(out, ",\"updatedInput\":");
        buf_put(out, input);
        buf_put_literal(out, "}}");
        return;
    case HOOK_FORM_GEMINI:
        put_head(out, agent);
        buf_put_literal(out, ",\"tool_input\":");
        buf_put(out, input);
        buf_put_literal(out, "}}");
        return;
    case HOOK_FORM_COPILOT:
        buf_put_literal(out, "{\"modifiedArgs\":");
        buf_put(out, input);
        if (grant) buf_put_literal(out, ",\"permissionDecision\":\"allow\"");
        buf_put_byte(out, '}');
        return;
    case HOOK_FORM_CURSOR:
        buf_put_literal(out, "{\"permission\":\"allow\",\"updated_input\":");
        buf_put(out, input);
        buf_put_byte(out, '}');
        return;
    case HOOK_FORM_OPENCLAW:
        buf_put_literal(out, "{\"params\":");
        buf_put(out, input);
        buf_put_byte(out, '}');
        return;
    }
}

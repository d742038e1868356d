/* evidence_html.c - the page of `writ evidence export`: one file, no script, nothing from elsewhere. */
#include "cli/evidence_export.h"

void page_put_text(struct buf *out, struct str text)
{
    for (size_t i = 0; i < text.size; i++) {
        char c = text.bytes[i];
        if (c == '&')
            buf_put_literal(out, "&amp;");
        else if (c == '<')
            buf_put_literal(out, "&lt;");
        else if (c == '>')
            buf_put_literal(out, "&gt;");
        else if (c == '"')
            buf_put_literal(out, "&quot;");
        else
            buf_put_byte(out, c);
    }
}

static void put_cell(struct buf *out, struct str text)
{
    buf_put_literal(out, "<td>");
    page_put_text(out, text);
}

static void put_number(struct buf *out, uint64_t n)
{
    buf_printf(out, "<td class=n>%llu", (unsigned long long)n);
}

static void put_table(struct buf *out, const char *heads)
{
    buf_printf(out, "<div class=t><table><tr>%s</tr>\n", heads);
}

static void put_table_end(struct buf *out) { buf_put_literal(out, "</table></div>\n"); }

static void put_style(struct buf *out)
{
    buf_put_literal(
        out, "<!doctype html>\n<html lang=en><head><meta charset=utf-8>\n"
             "<meta http-equiv=Content-Security-Policy content=\"default-src 'none'; style-src "
             "'unsafe-inline'\">\n"
             "<meta name=viewport content=\"width=device-width, initial-scale=1\">\n"
             "<title>Evidence of the audit trail</title>\n<style>\n"
             "body{font:16px/1.5 system-ui,sans-serif;margin:0 auto;max-width:60rem;padding:1rem;"
             "color:#1a1a1a;background:#fff}\n"
             "h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2rem}\n"
             ".t{overflow-x:auto}table{border-collapse:collapse;font-size:.875rem}\n"
             "td,th{text-align:left;padding:.3rem .6rem;border-bottom:1px solid #ddd;"
             "vertical-align:top}\n"
             ".n{text-align:right}pre{background:#f4f4f4;padding:.75rem;overflow-x:auto}\n"
             "code{font-size:.875em;overflow-wrap:anywhere}\n"
             "@media(prefers-color-scheme:dark){body{color:#e6e6e6;background:#161616}"
             "pre{background:#242424}td,th{border-color:#3a3a3a}a{color:#8ab4f8}}\n"
             "</style></head><body>\n");
}

static void put_head(struct buf *out, const struct export_content *e)
{
    buf_put_literal(out, "<h1>Evidence of the audit trail</h1>\n<p>Made at ");
    page_put_text(out, e->made_at);
    if (!str_is_empty(e->from)) {
        buf_put_literal(out, ", of the time from ");
        page_put_text(out, e->from);
    }
    if (!str_is_empty(e->to)) {
        buf_put_literal(out, " before ");
        page_put_text(out, e->to);
    }
    buf_put_literal(
        out,
        ".</p>\n<p>Engines of writ decide what agents may do. Each decision is a record. "
        "Engines sign their records as trees, so a record that was changed, removed or added "
        "later does not fit. This page only lists. It proves nothing by itself: run the "
        "verifier.</p>\n<h2>Verify</h2>\n<pre>python3 verify.py .                 the verifier "
        "without any code of writ\nwrit audit verify --file .          the same by writ\n"
        "verify.py . --keys FILE             with public keys that you got from the engines\n"
        "verify.py . --anchors PATH          with checkpoints that were kept outside</pre>\n"
        "<p><code>verify.py</code> is <code>ops/examples/evidence/verify.py</code> of writ's source. "
        "Get it from there, and not from the operator whose trail you verify. "
        "<code>docs/guides/auditor.md</code> explains what is found and what is not proved.</p>\n"
        "<h2>Files</h2>\n<ul>\n"
        "<li><a href=evidence.ndjson>evidence.ndjson</a>: records, checkpoints, keys, notes about "
        "removed records, texts of policies (<code>schemas/evidence.md</code>)\n"
        "<li><a href=resolutions.ndjson>resolutions.ndjson</a>, <a href=proofs/>proofs</a>: who "
        "resolved what, with the proof of each record\n"
        "<li><a href=policy-sets.json>policy-sets.json</a>, <a href=policies/>policies</a>: the "
        "texts in force\n<li><a href=readers.ndjson>readers.ndjson</a>: who read the trail\n</ul>\n");
}

static void put_streams(struct buf *out, const struct export_content *e)
{
    static const char *const names[] = {"allow", "deny", "human_review", "compute", "other"};
    buf_put_literal(out, "<h2>Streams</h2>\n<p>One engine writes one stream, with numbers from 1 "
                         "on. A part of the time has a few records more on each side.</p>\n");
    put_table(out, "<th>node<th>journal<th class=n>records<th class=n>first<th class=n>last");
    for (size_t i = 0; i < e->stream_count; i++) {
        const struct export_stream *s = &e->streams[i];
        buf_put_literal(out, "<tr>");
        put_cell(out, s->node);
        put_cell(out, s->journal);
        put_number(out, s->records);
        put_number(out, s->first);
        put_number(out, s->last);
        buf_put_byte(out, '\n');
    }
    put_table_end(out);
    buf_put_literal(out, "<p>Decisions:");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        buf_printf(out, "%s %llu %s", i > 0 ? "," : "", (unsigned long long)e->decisions[i],
                   names[i]);
    buf_put_literal(out, ".</p>\n");
}

static void put_rows(struct buf *out, const char *heads, const struct export_table *t)
{
    put_table(out, heads);
    buf_put(out, buf_view(&t->rows));
    put_table_end(out);
    if (t->count > EXPORT_ROWS_SHOWN)
        buf_printf(out, "<p>%llu more are in the file.</p>\n",
                   (unsigned long long)t->count - EXPORT_ROWS_SHOWN);
}

static void put_document(struct buf *out, const struct export_policy *p)
{
    buf_printf(out, "<a href=policies/%.*s%s>", STR_FORMAT(p->digest), p->suffix);
    page_put_text(out, p->name);
    buf_printf(out, " %llu</a> ", (unsigned long long)p->version);
}

static void put_policies(struct buf *out, const struct export_content *e)
{
    buf_put_literal(out, "<h2>Policies in force</h2>\n<p>A decision names all policies that were "
                         "active by one digest.</p>\n");
    put_table(out, "<th>digest<th>tenant<th class=n>decisions<th>first<th>last<th>texts");
    for (size_t i = 0; i < e->set_count; i++) {
        const struct export_set *s = &e->sets[i];
        buf_put_literal(out, "<tr><td><code>");
        page_put_text(out, str_cut(s->digest, 16));
        buf_put_literal(out, "…</code>");
        put_cell(out, s->tenant);
        put_number(out, s->decisions);
        put_cell(out, s->first);
        put_cell(out, s->last);
        buf_put_literal(out, "<td>");
        if (s->documents == NULL) buf_put_literal(out, "not found among the texts here");
        for (size_t k = 0; k < s->document_count; k++) put_document(out, s->documents[k]);
        buf_put_byte(out, '\n');
    }
    put_table_end(out);
    buf_put_literal(out, "<p>All texts:</p>\n");
    put_table(out, "<th>policy<th>tenant<th>since<th>by");
    for (size_t i = 0; i < e->policy_count; i++) {
        const struct export_policy *p = &e->policies[i];
        buf_put_literal(out, "<tr><td>");
        put_document(out, p);
        put_cell(out, p->tenant);
        put_cell(out, p->created_at);
        put_cell(out, p->created_by);
        buf_put_byte(out, '\n');
    }
    put_table_end(out);
}

void page_put(struct buf *out, const struct export_content *e)
{
    put_style(out);
    put_head(out, e);
    put_streams(out, e);
    buf_printf(
        out,
        "<h2>Who resolved what</h2>\n<p>%llu reviews were approved or denied. <em>Proof</em> is "
        "how the person was proved: a key's owner, or a token of the identity provider. "
        "%llu of the records have a proof file; %llu came after the last checkpoint, or "
        "cannot be computed.</p>\n",
        (unsigned long long)e->resolutions.count, (unsigned long long)e->proofs,
        (unsigned long long)e->unproved);
    put_rows(out, "<th>time<th>outcome<th>by<th>proof<th>action<th>for<th>note<th>record",
             &e->resolutions);
    put_policies(out, e);
    buf_put_literal(out, "<h2>Who read the trail</h2>\n<p>One row for each key and minute. No "
                         "checkpoint covers these rows: the platform writes them.</p>\n");
    put_rows(out, "<th>time<th>by<th>key<th class=n>requests<th>what", &e->readers);
    buf_put_literal(out, "</body></html>\n");
}

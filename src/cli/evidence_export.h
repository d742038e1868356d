/* evidence_export.h - `writ evidence export`: a folder for an auditor (docs/guides/auditor.md).
 *
 *   evidence.ndjson     records, checkpoints, keys, notes of removal, texts of policies: what is verified
 *   proofs/EVENT.json   of each resolved review, as writ audit prove writes them
 *   policies/DIGEST.…   the texts of policies
 *   policy-sets.json    which texts a decision's policy_digest names
 *   resolutions.ndjson  who resolved what, and how they were proved: events of the evidence
 *   readers.ndjson      who read the trail: events of the evidence
 *   index.html          explains, lists and links; without scripts */
#ifndef CLI_EVIDENCE_EXPORT_H
#define CLI_EVIDENCE_EXPORT_H

#include "cli/evidence.h"
#include "evidence/verify.h"

enum {
    EXPORT_ROWS_SHOWN = 5000,   /* of one table of the page */
    EXPORT_PROOFS_MAX = 100000, /* files */
    EXPORT_LISTS_MAX = 100000,  /* streams, texts, sets */
    EXPORT_TRIES_MAX = 1 << 18, /* for the texts of one set */
};

struct export_stream {
    struct str node, journal;
    uint64_t records, first, last;
};

struct export_policy {
    struct str tenant, name, digest, created_at, created_by;
    const char *suffix;
    uint64_t version;
};

struct export_set { /* of a decision's policy_digest */
    struct str tenant, digest, first, last;
    uint64_t decisions;
    const struct export_policy **documents; /* NULL: not found */
    size_t document_count;
};

struct export_table { /* rows of the page, as HTML */
    struct buf rows;
    uint64_t count;
};

struct export_content {
    struct str made_at, from, to;
    struct export_stream *streams;
    struct export_policy *policies;
    struct export_set *sets;
    size_t stream_count, policy_count, set_count;
    uint64_t decisions[5]; /* allow, deny, human_review, compute, others */
    uint64_t proofs, unproved;
    struct export_table resolutions, readers;
};

/* The text, so that a browser shows it as it is. */
void page_put_text(struct buf *out, struct str text);
/* The whole page. */
void page_put(struct buf *out, const struct export_content *e);

#endif

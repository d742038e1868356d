/* yaml_words.h - what is wrong with a text that is no YAML, for people who
 * have not read its grammar.
 *
 * A YAML parser says where it gave up and which rule of the grammar it was in; the author wants to
 * know what to mend. The usual slips (indentation, a quote or bracket that is not closed, a colon
 * without its blank) get a sentence of their own and the place where the slip is, as far as it can
 * be told; all else is told as the parser tells it. Inside of the room; no type of the parser's. */
#ifndef POLICY_YAML_WORDS_H
#define POLICY_YAML_WORDS_H

#include "base/buf.h"

struct yaml_slip {
    struct str text;
    const char *problem, *context; /* the parser's words; context may be "" */
    /* where it gave up, 1-based; may be moved to where the slip is */
    unsigned line, column;
    unsigned from_line, from_column; /* where the thing it was reading began */
};

/* Puts the sentence and corrects s->line and s->column. */
void yaml_words_put(struct buf *out, struct yaml_slip *s);

#endif

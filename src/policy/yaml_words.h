/* yaml_words.h - error texts for invalid YAML, for authors who do not know its grammar.
 *
 * A YAML parser reports the position where it stopped and its rule of the grammar, but an author
 * needs the correction. The usual errors (indentation, a quote or bracket that is not closed, a
 * colon without a blank) get a text of their own and, as far as possible, the position of the
 * error. Other errors keep the parser's text. Inside of the room; without types of the parser. */
#ifndef POLICY_YAML_WORDS_H
#define POLICY_YAML_WORDS_H

#include "base/buf.h"

struct yaml_slip {
    struct str text;
    const char *problem, *context; /* the parser's words; context may be "" */
    /* where it stopped, 1-based; may be moved to the position of the error */
    unsigned line, column;
    unsigned from_line, from_column; /* the beginning of the construct that it was reading */
};

/* Writes the text and corrects s->line and s->column. */
void yaml_words_put(struct buf *out, struct yaml_slip *s);

#endif

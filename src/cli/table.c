#include "cli/table.h"

#include <wchar.h>

#include "base/check.h"

enum { GAP = 2, COLUMN_LEAST = 8 };

void table_init(struct table *t, struct arena *arena, const char *const *heads)
{
    *t = (struct table){.arena = arena};
    while (heads[t->columns] != NULL) {
        check(t->columns < TABLE_COLUMNS_MAX);
        t->heads[t->columns] = heads[t->columns];
        t->columns++;
    }
    check(t->columns > 0);
}

void table_add(struct table *t, struct str cell)
{
    if (t->cell_count == t->capacity) {
        size_t wanted = t->capacity == 0 ? 64 * t->columns : t->capacity * 2;
        struct str *more = arena_array(t->arena, struct str, wanted);
        if (more == NULL) return; /* the arena's owner checks its overflow before printing */
        if (t->cell_count > 0) memcpy(more, t->cells, t->cell_count * sizeof *more);
        t->cells = more;
        t->capacity = wanted;
    }
    t->cells[t->cell_count++] = str_is_empty(cell) ? STR("-") : text_shown(t->arena, cell);
    t->rows = t->cell_count / t->columns;
}

/* ---- safe text ---- */

/* The code point that starts here and its length; a byte that is not UTF-8 counts as one. */
static uint32_t decode(struct str s, size_t *ret_size)
{
    const unsigned char *b = (const unsigned char *)s.bytes;
    size_t size = b[0] < 0x80 ? 1 : b[0] < 0xe0 ? 2 : b[0] < 0xf0 ? 3 : 4;
    size_t offset;
    if (b[0] >= 0x80 &&
        (b[0] < 0xc2 || size > s.size || !str_is_utf8(str_of(s.bytes, size), &offset))) {
        *ret_size = 1;
        return 0xfffd;
    }
    *ret_size = size;
    if (size == 1) return b[0];
    uint32_t point = b[0] & (0xffu >> (size + 1));
    for (size_t i = 1; i < size; i++) point = point << 6 | (b[i] & 0x3f);
    return point;
}

static bool is_safe(uint32_t point)
{
    if (point < 0x20 || (point >= 0x7f && point < 0xa0)) return false;
    /* Characters that reverse the direction of text, or that are invisible: with them another name
     * would look the same. */
    if ((point >= 0x200b && point <= 0x200f) || (point >= 0x2028 && point <= 0x202e) ||
        (point >= 0x2060 && point <= 0x206f) || (point >= 0xe0000 && point <= 0xe0fff))
        return false;
    /* not characters: XML does not allow them in a document */
    if ((point & 0xfffe) == 0xfffe) return false;
    return point != 0xad && point != 0x061c && point != 0x180e && point != 0xfeff &&
           point != 0xfffd;
}

struct str text_shown(struct arena *arena, struct str text)
{
    char *to = arena_bytes(arena, text.size * 6 + 1); /* \u00XX for each byte at worst */
    if (to == NULL) return STR("…");
    struct buf out = buf_over(to, text.size * 6 + 1);
    for (size_t i = 0, size; i < text.size; i += size) {
        uint32_t point = decode(str_skip(text, i), &size);
        if (is_safe(point))
            buf_put(&out, str_of(text.bytes + i, size));
        else
            buf_printf(&out, "\\u%04x", point);
    }
    arena_trim(arena, to, text.size * 6 + 1, out.size);
    return buf_view(&out);
}

static size_t point_columns(uint32_t point)
{
    int columns = wcwidth((wchar_t)point);
    return columns < 0 ? 1 : (size_t)columns; /* the C locale knows ASCII only */
}

size_t text_columns(struct str text)
{
    size_t columns = 0;
    for (size_t i = 0, size; i < text.size; i += size)
        columns += point_columns(decode(str_skip(text, i), &size));
    return columns;
}

/* ---- printing ---- */

static bool may_be_cut(const char *head) { return head[0] == '*'; }
static struct str head_text(const char *head) { return str_from(head[0] == '*' ? head + 1 : head); }

static void print_blanks(FILE *out, size_t count)
{
    for (size_t i = 0; i < count; i++) fputc(' ', out);
}

/* The cell in `width` columns; a longer text ends with an ellipsis. */
static void print_cell(FILE *out, struct str cell, size_t width, bool is_last)
{
    size_t columns = text_columns(cell);
    if (columns <= width) {
        fwrite(cell.bytes, 1, cell.size, out);
        if (!is_last) print_blanks(out, width - columns + GAP);
        return;
    }
    size_t end = 0, used = 0;
    for (size_t size; end < cell.size; end += size) {
        size_t next = point_columns(decode(str_skip(cell, end), &size));
        if (used + next + 1 > width) break; /* one column for the ellipsis */
        used += next;
    }
    fwrite(cell.bytes, 1, end, out);
    fputs("…", out);
    if (!is_last) print_blanks(out, width - used - 1 + GAP);
}

static void print_row(const struct table *t, FILE *out, const struct str *cells,
                      const size_t *widths)
{
    for (size_t c = 0; c < t->columns; c++)
        print_cell(out, cells[c], widths[c], c + 1 == t->columns);
    fputc('\n', out);
}

/* Narrows the widest column that may be cut by one, again and again, until a line fits. */
static void narrow(const struct table *t, size_t *widths, size_t total, unsigned width)
{
    while (total > width) {
        size_t widest = t->columns;
        for (size_t c = 0; c < t->columns; c++)
            if (may_be_cut(t->heads[c]) && widths[c] > COLUMN_LEAST &&
                (widest == t->columns || widths[c] > widths[widest]))
                widest = c;
        if (widest == t->columns) return;
        widths[widest]--;
        total--;
    }
}

void table_print(const struct table *t, FILE *out, unsigned width)
{
    size_t widths[TABLE_COLUMNS_MAX], total = GAP * (t->columns - 1);
    struct str heads[TABLE_COLUMNS_MAX];
    for (size_t c = 0; c < t->columns; c++) {
        heads[c] = head_text(t->heads[c]);
        widths[c] = text_columns(heads[c]);
        for (size_t r = 0; r < t->rows; r++) {
            size_t columns = text_columns(t->cells[r * t->columns + c]);
            if (columns > widths[c]) widths[c] = columns;
        }
        total += widths[c];
    }
    if (width > 0) narrow(t, widths, total, width);
    print_row(t, out, heads, widths);
    for (size_t r = 0; r < t->rows; r++) print_row(t, out, t->cells + r * t->columns, widths);
}

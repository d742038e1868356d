/* fuzz_shell.c - any text as a command line: what is read has a plain form, every word in quotes,
 * that is read again to the same parts; a name and a variable are plain; no word has a byte that is
 * refused; what is refused has a reason and a place in the text. */
#include <stdlib.h>

#include "base/buf.h"
#include "base/check.h"
#include "cel/shell.h"

enum { TEXT_MOST = 4096 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool is_in(char c, const char *more)
{
    bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    return is_letter || (c >= '0' && c <= '9') || (c != '\0' && strchr(more, c) != NULL);
}

static void check_all(struct str text, const char *more)
{
    for (size_t i = 0; i < text.size; i++) check(is_in(text.bytes[i], more));
}

/* In quotes whatever it is; a ' stands behind a \ of its own. */
static void put_word(struct buf *out, struct str word)
{
    buf_put_byte(out, '\'');
    for (size_t i = 0; i < word.size; i++) {
        char c = word.bytes[i];
        check((c >= ' ' && c < 0x7F) || c == '\n');
        buf_put(out, c == '\'' ? STR("'\\''") : str_of(&word.bytes[i], 1));
    }
    buf_put_byte(out, '\'');
}

static void put_item(struct buf *out, const struct cel_shell_item *item)
{
    switch (item->part) {
    case SHELL_COMMAND:
        buf_put(out, item->sign);
        buf_put_byte(out, ' ');
        return;
    case SHELL_ASSIGNMENT:
        check(item->sign.size > 0 && (item->sign.bytes[0] < '0' || item->sign.bytes[0] > '9'));
        check_all(item->sign, "_");
        buf_put(out, item->sign);
        buf_put_byte(out, '=');
        break;
    case SHELL_REDIRECTION:
        check(item->descriptor <= 9 && item->text.size > 0);
        buf_put_u64(out, item->descriptor);
        buf_put(out, item->sign);
        if (str_equal(item->sign, STR(">&"))) {
            check(item->text.size == 1 && item->text.bytes[0] >= '0' && item->text.bytes[0] <= '9');
            buf_put(out, item->text);
            buf_put_byte(out, ' ');
            return;
        }
        break;
    case SHELL_NAME:
        check(item->text.size > 0);
        check_all(item->text, "_./,:@%+-");
        break;
    default: break;
    }
    put_word(out, item->text);
    buf_put_byte(out, ' ');
}

/* The plain form; false: the line is refused. */
static bool plain_form(struct str line, char *room, struct buf *out)
{
    struct cel_shell s = cel_shell_start(line, room);
    struct cel_shell_item item;
    while ((item = cel_shell_next(&s)).part < SHELL_END) put_item(out, &item);
    check(s.at <= line.size && cel_shell_next(&s).part == SHELL_END);
    check(item.part == SHELL_END || item.text.size > 0);
    return item.part == SHELL_END;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > TEXT_MOST) return 0;
    char *own = malloc(size + 1), *room = malloc(size + 1);
    struct buf plain, again;
    check(own != NULL && room != NULL);
    if (size > 0) memcpy(own, data, size);
    buf_init(&plain, 256, 1 << 20);
    buf_init(&again, 256, 1 << 20);
    if (plain_form(str_of(own, size), room, &plain)) {
        char *second = malloc(plain.size + 1);
        check(second != NULL && !plain.overflow);
        check(plain_form(buf_view(&plain), second, &again));
        check(str_equal(buf_view(&plain), buf_view(&again)));
        free(second);
    }
    buf_fini(&plain);
    buf_fini(&again);
    free(own);
    free(room);
    return 0;
}

#include "base/arguments.h"

#include <stdio.h>

#include "base/check.h"

enum { WORD_MAX = 40 };

void arguments_know(struct arguments *a, const struct flag *table)
{
    for (; table != NULL && table->name != NULL; table++) {
        check(a->flag_count < FLAGS_MAX);
        a->flags[a->flag_count++] = table;
    }
}

static size_t find(const struct arguments *a, struct str name)
{
    size_t i = 0;
    while (i < a->flag_count && !str_equal(name, str_from(a->flags[i]->name))) i++;
    return i;
}

static const struct flag *nearest(const struct arguments *a, struct str name)
{
    const struct flag *best = NULL;
    unsigned least = (unsigned)(name.size < 6 ? 1 : name.size / 3) + 1;
    for (size_t i = 0; i < a->flag_count; i++) {
        unsigned distance = str_edits(name, str_from(a->flags[i]->name));
        if (distance >= least) continue;
        least = distance;
        best = a->flags[i];
    }
    return best;
}

static enum err refuse_unknown(const struct arguments *a, struct str name, struct fault *f)
{
    /* A common mistake, so it has an error text of its own. */
    if (str_equal(name, STR("key")))
        return fault_set(
            f, ERR_BAD_VALUE, "key",
            "a key is never written on a command line, where other users of the machine can read it; "
            "put it in WRIT_KEY, or in a file and name that with --key-file");
    if (name.size > WORD_MAX) name.size = WORD_MAX;
    const struct flag *near = nearest(a, name);
    if (near == NULL)
        return fault_set(f, ERR_BAD_VALUE, "", "there is no option --%.*s here; --help lists all",
                         STR_FORMAT(name));
    return fault_set(f, ERR_BAD_VALUE, "", "there is no option --%.*s here; did you mean --%s?",
                     STR_FORMAT(name), near->name);
}

static enum err read_flag(struct arguments *a, struct str word, int argc, char **argv, int *at,
                          struct fault *f)
{
    struct str name = str_of(word.bytes, str_find(word, '='));
    size_t i = find(a, name);
    if (i == a->flag_count) return refuse_unknown(a, name, f);
    const struct flag *flag = a->flags[i];
    if (a->values[i] != NULL)
        return fault_set(f, ERR_BAD_VALUE, flag->name, "--%s is given twice", flag->name);

    bool has_value = name.size < word.size;
    if (flag->value == NULL) {
        if (has_value)
            return fault_set(f, ERR_BAD_VALUE, flag->name, "--%s takes no value", flag->name);
        a->values[i] = "";
        return ERR_OK;
    }
    if (has_value) {
        a->values[i] = word.bytes + name.size + 1;
        return ERR_OK;
    }
    /* A word that starts with two dashes is the next flag. For such a value, write --name=value. */
    if (*at >= argc || strncmp(argv[*at], "--", 2) == 0)
        return fault_set(f, ERR_BAD_VALUE, flag->name, "--%s needs a value: --%s %s", flag->name,
                         flag->name, flag->value);
    a->values[i] = argv[(*at)++];
    return ERR_OK;
}

enum err arguments_read(struct arguments *a, int argc, char **argv, int *at, bool one_word,
                        struct fault *f)
{
    bool only_words = false;
    while (*at < argc) {
        struct str word = str_from(argv[(*at)++]);
        if (!only_words && str_equal(word, STR("--"))) {
            only_words = true;
            continue;
        }
        if (!only_words && str_equal(word, STR("-h"))) word = STR("--help");
        if (!only_words && str_starts(word, STR("--"))) {
            enum err e = read_flag(a, str_skip(word, 2), argc, argv, at, f);
            if (e != ERR_OK) return e;
            continue;
        }
        if (!only_words && word.size > 1 && word.bytes[0] == '-')
            return fault_set(f, ERR_BAD_VALUE, "",
                             "\"%.*s\": options are written with two dashes; --help lists all",
                             (int)(word.size > WORD_MAX ? WORD_MAX : word.size), word.bytes);
        if (a->positional_count == POSITIONALS_MAX)
            return fault_set(f, ERR_BAD_VALUE, "", "more than %d words", POSITIONALS_MAX);
        a->positionals[a->positional_count++] = word.bytes;
        if (one_word) return ERR_OK;
    }
    return ERR_OK;
}

void arguments_give(struct arguments *a, const char *name)
{
    size_t i = find(a, str_from(name));
    check(i < a->flag_count && a->flags[i]->value == NULL);
    a->values[i] = "";
}

struct str argument_text(const struct arguments *a, const char *name)
{
    size_t i = find(a, str_from(name));
    check(i < a->flag_count); /* the table of the command has it */
    return str_from(a->values[i]);
}

bool argument_given(const struct arguments *a, const char *name)
{
    return !str_is_absent(argument_text(a, name));
}

struct str argument_at(const struct arguments *a, size_t index)
{
    return index < a->positional_count ? str_from(a->positionals[index]) : (struct str){0};
}

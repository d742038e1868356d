/* regex.cc - see regex.h. */
#include "cel/regex.h"

#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <string>

#include <re2/re2.h>

struct cel_regex {
    re2::RE2 compiled;
    size_t size = 0;
    cel_regex(const re2::StringPiece &pattern, const re2::RE2::Options &options)
        : compiled(pattern, options)
    {
    }
};

size_t cel_regex_classes(const char *pattern, size_t size)
{
    size_t count = 0;
    for (size_t i = 0; i + 1 < size; i++)
        if (pattern[i] == '\\') count += (pattern[++i] | 0x20) == 'p';
    return count;
}

/* RE2 uses only a part of its memory for instructions, of 16 bytes each. */
static size_t instructions_of(const re2::RE2 &compiled, size_t memory_bytes)
{
    if (compiled.error_code() == re2::RE2::ErrorPatternTooLarge) return memory_bytes / 16;
    return compiled.ok() ? static_cast<size_t>(compiled.ProgramSize()) : 0;
}

/* The reason, cut between characters. */
static void tell(const char *why, char *ret_error)
{
    size_t shown = strnlen(why, REGEX_ERROR_TEXT - 1);
    while (shown > 0 && shown < strlen(why) &&
           (static_cast<unsigned char>(why[shown]) & 0xC0) == 0x80)
        shown--;
    memcpy(ret_error, why, shown);
    ret_error[shown] = '\0';
}

static struct cel_regex *create(const char *pattern, size_t size, size_t memory_bytes,
                                size_t *ret_instructions, char *ret_error)
{
    re2::RE2::Options options;
    options.set_log_errors(false);
    options.set_max_mem(static_cast<int64_t>(memory_bytes));
    if (size > REGEX_PATTERN_MAX) {
        if (ret_error != nullptr) tell("the pattern is too long", ret_error);
        return nullptr;
    }
    auto regex = std::make_unique<cel_regex>(re2::StringPiece(pattern, size), options);
    *ret_instructions = instructions_of(regex->compiled, memory_bytes);
    if (regex->compiled.ok()) {
        regex->size = *ret_instructions;
        return regex.release();
    }
    if (ret_error != nullptr) tell(regex->compiled.error().c_str(), ret_error);
    return nullptr;
}

struct cel_regex *cel_regex_create(const char *pattern, size_t size, size_t memory_bytes,
                                   size_t *ret_instructions, char *ret_error)
{
    *ret_instructions = 0;
    try {
        return create(pattern, size, memory_bytes, ret_instructions, ret_error);
    } catch (const std::bad_alloc &) {
        if (ret_error != nullptr) ret_error[0] = '\0';
        return nullptr;
    }
}

void cel_regex_destroy(struct cel_regex *regex) { delete regex; }

static bool search(const struct cel_regex *regex, re2::StringPiece text,
                   re2::StringPiece *ret_place)
{
    return regex->compiled.Match(text, 0, text.size(), re2::RE2::UNANCHORED, ret_place,
                                 ret_place != nullptr ? 1 : 0);
}

static bool search_or_end(const struct cel_regex *regex, re2::StringPiece text,
                          re2::StringPiece *ret_place) noexcept
{
    return search(regex, text, ret_place);
}

bool cel_regex_search(const struct cel_regex *regex, const char *text, size_t size,
                      size_t *ret_from, size_t *ret_to)
{
    re2::StringPiece found;
    if (!search_or_end(regex, re2::StringPiece(text, size), ret_from != nullptr ? &found : nullptr))
        return false;
    if (ret_from != nullptr) {
        *ret_from = static_cast<size_t>(found.data() - text);
        *ret_to = *ret_from + found.size();
    }
    return true;
}

bool cel_regex_search_once(const struct cel_regex *regex, const char *text, size_t size,
                           bool *ret_found)
{
    try {
        *ret_found = search(regex, re2::StringPiece(text, size), nullptr);
        return true;
    } catch (const std::bad_alloc &) {
        return false;
    }
}

size_t cel_regex_size(const struct cel_regex *regex) { return regex->size; }

/* regex.cc - see regex.h. */
#include "policy/cel/regex.h"

#include <cstdint>
#include <cstring>
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

/* RE2 gives instructions, 16 bytes each, less than all of its memory. */
static size_t instructions_of(const re2::RE2 &compiled, size_t memory_bytes)
{
    if (compiled.error_code() == re2::RE2::ErrorPatternTooLarge) return memory_bytes / 16;
    return compiled.ok() ? static_cast<size_t>(compiled.ProgramSize()) : 0;
}

struct cel_regex *cel_regex_create(const char *pattern, size_t size, size_t memory_bytes,
                                   size_t *ret_instructions, char *ret_error)
{
    *ret_instructions = 0;
    re2::RE2::Options options;
    options.set_log_errors(false);
    options.set_max_mem(static_cast<int64_t>(memory_bytes));
    const char *why = "the pattern is too long";
    std::string error;
    if (size <= REGEX_PATTERN_MAX) {
        auto *regex = new (std::nothrow) cel_regex(re2::StringPiece(pattern, size), options);
        if (regex != nullptr) *ret_instructions = instructions_of(regex->compiled, memory_bytes);
        if (regex != nullptr && regex->compiled.ok()) {
            regex->size = *ret_instructions;
            return regex;
        }
        if (regex != nullptr) error = regex->compiled.error();
        why = error.c_str();
        delete regex;
    }
    if (ret_error != nullptr) {
        size_t shown = strnlen(why, REGEX_ERROR_TEXT - 1);
        while (shown > 0 && shown < strlen(why) &&
               (static_cast<unsigned char>(why[shown]) & 0xC0) == 0x80)
            shown--;
        memcpy(ret_error, why, shown);
        ret_error[shown] = '\0';
    }
    return nullptr;
}

void cel_regex_destroy(struct cel_regex *regex) { delete regex; }

bool cel_regex_search(const struct cel_regex *regex, const char *text, size_t size,
                      size_t *ret_from, size_t *ret_to)
{
    re2::StringPiece found;
    bool wants_place = ret_from != nullptr;
    if (!regex->compiled.Match(re2::StringPiece(text, size), 0, size, re2::RE2::UNANCHORED,
                               wants_place ? &found : nullptr, wants_place ? 1 : 0))
        return false;
    if (wants_place) {
        *ret_from = static_cast<size_t>(found.data() - text);
        *ret_to = *ret_from + found.size();
    }
    return true;
}

size_t cel_regex_size(const struct cel_regex *regex) { return regex->size; }

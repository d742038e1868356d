/* number.cc - the access to the C++ library's number conversions (std::to_chars, std::from_chars).
 *
 * Shortest round-trip printing (Ryu; Adams 2018) and correctly rounded reading (Lemire 2021) are
 * in libstdc++ but not in the C library: printf("%.17g") is not shortest, strtod depends on the
 * locale and is slow. Nothing here throws or allocates. */
#include <charconv>
#include <cstddef>
#include <system_error>

extern "C" {
bool number_nearest(const char *bytes, size_t size, double *ret_number);
size_t number_shortest(double number, char *to);
size_t number_digits(double number, char *to);
}

bool number_nearest(const char *bytes, size_t size, double *ret_number)
{
    auto [end, error] = std::from_chars(bytes, bytes + size, *ret_number);
    return error == std::errc() && end == bytes + size;
}

size_t number_shortest(double number, char *to)
{
    auto [end, error] = std::to_chars(to, to + 32, number, std::chars_format::scientific);
    return error == std::errc() ? static_cast<size_t>(end - to) : 0;
}

size_t number_digits(double number, char *to)
{
    auto [end, error] = std::to_chars(to, to + 320, number, std::chars_format::fixed, 0);
    return error == std::errc() ? static_cast<size_t>(end - to) : 0;
}

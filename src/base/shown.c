#include "base/shown.h"

struct str shown_address(struct str address)
{
    bool is_telling =
        str_find(address, '@') < address.size || str_find(address, '?') < address.size;
    return is_telling ? STR("…") : address;
}

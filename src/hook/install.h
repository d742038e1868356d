/* install.h - `writ-hook AGENT --install`, `--uninstall` and `--print`: commands of a person,
 * not of an agent. Each prints what it did, or one line about what is wrong, and returns an exit
 * status. */
#ifndef HOOK_INSTALL_H
#define HOOK_INSTALL_H

#include "hook/options.h"

int hook_install(const struct hook_options *options);
int hook_uninstall(const struct hook_options *options);
int hook_print(const struct hook_options *options);
#endif

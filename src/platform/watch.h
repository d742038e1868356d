/* watch.h - policies.dir: a directory of documents that are kept in force as they are there.
 *
 *   the system tells of a change ─┐
 *   policies.rescan passes ───────┴▶ after 100 ms of company: look through the directory (a reader)
 *                                      → read and check what is new → store all of it (the writer,
 *                                      one transaction) → what is in force is what is there
 *
 * Promises. Flat: NAME.yaml, NAME.yml or NAME.json is policy NAME; names that begin with a point or
 * # and all other endings are left alone, so editors' files are no documents. Links are followed. A
 * document goes through the same checks as a PUT. One that cannot be read or is not valid changes
 * nothing: what was in force stays so, health is degraded and the log says file, line, column and
 * why. A file is taken when it has not changed for 200 ms, and a policy whose file is gone is
 * deleted when it has been gone for a second, so that a checkout that takes files away and brings
 * them back does not open what they deny; that holds after a restart too. A directory that cannot
 * be read changes nothing, nor does one that holds no document at all (it may not be mounted):
 * health says so, and whoever means it deletes the policies through the API, which lets go of what
 * has no file. Only what this directory has put in force is deleted; what another one has, and has
 * no file here, shows in health. When others change the store (another platform, a restored one),
 * what is in force is compared with the files again. What a file has put in force, the API refuses
 * to change (409 watched_policy), and so does the writer if the file comes first; until the
 * directory has been looked through once, it changes none of that tenant's. Versions and audit
 * events have the actor `policies.dir`, which no key may be named. */
#ifndef PLATFORM_WATCH_H
#define PLATFORM_WATCH_H

#include "base/fault.h"
#include "base/str.h"

struct platform;
struct policy_condition;
struct watch;

/* *ret is NULL where no directory is configured. The first look begins with the loop. */
enum err watch_create(struct platform *p, struct watch **ret, struct fault *f);
void watch_destroy(struct watch *w); /* when no job is under way; NULL is fine */

/* All of these take NULL: nothing is watched. The reactor's. */

/* ERR_WATCHED_POLICY, ERR_STARTING, or ERR_OK where the API may change (delete) this policy,
 * provided that *c, to which the writer's part is added, holds when it does. */
enum err watch_permits(const struct watch *w, struct str tenant, struct str name, bool deletes,
                       struct policy_condition *c, struct fault *f);
/* The store was changed, `by_others` than this platform or by a job of its own. */
void watch_store_moved(struct watch *w, bool by_others);
bool watch_is_ready(const struct watch *w); /* it has been looked through once */
/* "ok", or which files are not in force: for health, which anybody may read, so no text of a
 * document. */
const char *watch_health(const struct watch *w, bool *ret_ok);

#endif

/* watch.h - policies.dir: a directory of documents that is kept in force as it is there.
 *
 *   the system tells of a change ─┐
 *   policies.rescan passes ───────┴▶ read all of it ─▶ the same a second later? ─▶ check the set
 *                                      ─▶ apply it in one transaction, or refuse it as a whole
 *
 * Promises. The directory is one set, and flat: NAME.yaml, NAME.yml or NAME.json is policy NAME;
 * names that begin with a point or # and all other endings are left alone, so editors' files are no
 * documents. Links are followed. The set is taken when nothing in it has changed for a second, and
 * goes the way of policies:apply. Where one document is not valid, cannot be read, or names a role
 * that no document defines, nothing of the set is changed: what was in force stays so, health is
 * degraded and the log says file, line, column and why. The API may then still put policies of
 * other names. A policy goes with its file. A directory that cannot be read changes nothing, nor
 * does one that holds no document at all (it may not be mounted): health says so, and whoever means
 * it deletes the policies through the API, which lets go of what has no file. Only what this
 * directory has put in force is deleted; what another one has, and has no file here, shows in
 * health. When others change the store (another platform, a restored one), what is in force is
 * compared with the files again. What a file has put in force, the API refuses to change (409
 * watched_policy). On a first start the platform is not ready before the directory has been
 * applied. Versions and audit events have the actor `policies.dir`, which no key may be named. */
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

/* ERR_WATCHED_POLICY, ERR_STARTING, or ERR_OK where the API may change or delete this policy,
 * provided that *c, to which the writer's part is added, holds when it does. */
enum err watch_permits(const struct watch *w, struct str tenant, struct str name,
                       struct policy_condition *c, struct fault *f);
/* The store was changed, `by_others` than this platform or by a job of its own. */
void watch_store_moved(struct watch *w, bool by_others);
/* Why nothing of the directory is in force yet; NULL: it was applied, now or before the start. */
const char *watch_unready(const struct watch *w);
/* "ok", or which files are not in force: for health, which anybody may read, so no text of a
 * document. */
const char *watch_health(const struct watch *w, bool *ret_ok);

#endif

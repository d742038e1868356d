/* policy_directory.h - policies.dir: keeps the documents of a directory in force.
 *
 *   the system reports a change ──┐
 *   policies.rescan passes ───────┴▶ read all of it ─▶ the same a second later? ─▶ check the set
 *                                      ─▶ apply it in one transaction, or refuse it as a whole
 *
 * Promises. The directory is one set, and flat: NAME.yaml, NAME.yml or NAME.json is policy NAME.
 * Names that begin with a point or # and all other endings are ignored, so editors' files are no
 * documents. Links are followed. The set is taken when nothing in it has changed for a second, and
 * is handled like policies:apply.
 *
 * If one document is not valid, cannot be read, or names a role that no document defines, nothing
 * of the set changes. The policies in force stay, health is degraded, and the log has file, line,
 * column and reason. The API may then still put policies of other names.
 *
 * A policy is deleted with its file. A directory that cannot be read changes nothing. A directory
 * without any document changes nothing either, because it may not be mounted: health reports it. An
 * operator who wants that deletes the policies through the API, which permits it for policies
 * without a file. Only policies that this directory has put in force are deleted. Policies of
 * another directory that have no file here show in health.
 *
 * When others change the store (another platform, a restored one), the policies in force are
 * compared with the files again. The API refuses to change a policy that a file has put in force
 * (409 watched_policy). On a first start the platform is not ready before the directory has been
 * applied. Versions and audit events have the actor `policies.dir`, which no key may be named. */
#ifndef PLATFORM_POLICY_DIRECTORY_H
#define PLATFORM_POLICY_DIRECTORY_H

#include "base/fault.h"
#include "base/str.h"

struct platform;
struct policy_condition;
struct policy_directory;

/* *ret is NULL if no directory is configured. The first look begins with the loop. */
enum err directory_create(struct platform *p, struct policy_directory **ret, struct fault *f);
/* when no job is under way; NULL is permitted */
void directory_destroy(struct policy_directory *w);

/* All of these accept NULL, for a platform without policies.dir. They belong to the reactor. */

/* ERR_OK: the API may change or delete this policy, if *c, to which the writer's part is added,
 * holds at that time. Else ERR_WATCHED_POLICY or ERR_STARTING. */
enum err directory_permits(const struct policy_directory *w, struct str tenant, struct str name,
                           struct policy_condition *c, struct fault *f);
/* The store has changed. `by_others`: another platform or process changed it, not a job of this
 * one. */
void directory_store_moved(struct policy_directory *w, bool by_others);
/* Why the directory is not in force yet; NULL: it was applied, now or before the start. */
const char *directory_unready(const struct policy_directory *w);
/* "ok", or which files are not in force. For health, which anybody may read, so it has no
 * document's text. */
const char *directory_health(const struct policy_directory *w, bool *ret_ok);

#endif

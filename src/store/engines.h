/* engines.h - the list of engines: what the store knows of each node.
 *
 *   current   it runs the newest revision
 *   behind    it runs an older revision
 *   silent    it has not asked for policies and keys for ENGINE_SILENT_MS. It may decide by an old
 *             revision, so revocations name it until it is forgotten (streams.h), or for a week
 *   gone      it has not asked for a week, or never: only positions of its journals are left
 *
 * Blocking; belongs to the thread of its store. */
#ifndef STORE_ENGINES_H
#define STORE_ENGINES_H

#include "store/store.h"

/* An engine asks each minute at least, and its platform writes that down each minute. */
#define ENGINE_SILENT_MS UINT64_C(300000)

/* {engines, revision, count, limit, next_cursor}, by the names of the nodes; `cursor`: how many of
 * them are passed over. A page ends early at half of LIMIT_REPLY_BYTES. */
enum err engines_list(struct store *s, uint64_t now_ms, uint64_t limit, uint64_t cursor,
                      struct buf *out, struct fault *f);

#endif

/* mask.h - inside of the room: the masks of a set, as one tree of names.
 *
 *     args.card, args.cards.*.number, args.**.secret        (a node with ! ends a path)
 *
 *     root ── args ─┬─ card !
 *                   ├─ cards ── * ── number !
 *                   └─ ** ── secret !
 *
 * A value is walked once, whatever the number of masks: beside it goes the list of the nodes that
 * its path leads to. A step looks at one node for one value, and a list holds at most
 * MASK_ACTIVE_MAX: a value with more of them is masked whole. So a walk takes at most
 * MASK_ACTIVE_MAX steps for each value. Conditions ask the same tree about a path.
 *
 * A name is read in one way, in masks, in values and in conditions: without case and all else that
 * spelling.h folds, and a whole number without zeros in front of it. */
#ifndef POLICY_MASK_H
#define POLICY_MASK_H

#include "policy/set.h"

enum { MASK_ACTIVE_MAX = 32 };

/* Makes s->masks of the masks of s->documents. False: out of memory. */
bool masks_build(struct policy_set *s);

/* Whether the path (segments[0] is args, context, resource or request; an absent one is any
 * key) leads to something masked, or holds it. */
bool mask_hides(const struct policy_set *s, const struct str *segments, size_t count);

/* What policy_mask does, or with `only_look` policy_masks_in; *ret_steps (may be NULL): what it
 * took. */
bool masks_walk(const struct policy_set *s, struct str root_name, struct json *root, bool only_look,
                uint64_t *ret_steps);

#endif

/* mask.h - inside of the room: the masks of a set, as one tree of names.
 *
 *     args.card, args.cards.*.number, args.**.secret        (a node with ! ends a path)
 *
 *     root ── args ─┬─ card !
 *                   ├─ cards ── * ── number !
 *                   └─ ** ── secret !
 *
 * A value is walked once for all masks, together with the list of nodes to which its path leads. A
 * step compares one value with one node. A list holds at most MASK_ACTIVE_MAX nodes; a value with
 * more is masked whole. So a walk takes at most MASK_ACTIVE_MAX steps for each value. Conditions
 * look up paths in the same tree.
 *
 * Names are compared in the same way in masks, values and conditions: folded as in spelling.h, and
 * a whole number without leading zeros. */
#ifndef POLICY_MASK_H
#define POLICY_MASK_H

#include "policy/set.h"

enum { MASK_ACTIVE_MAX = 32 };

/* Makes s->masks of the masks of s->documents. False: out of memory. */
bool masks_build(struct policy_set *s);

/* Whether the path (segments[0] is args, context, resource or request; an absent one is any
 * key) leads to something masked, or holds it. */
bool mask_hides(const struct policy_set *s, const struct str *segments, size_t count);

/* policy_mask(), or policy_masks_in() with `only_look`; *ret_steps (may be NULL): the steps that it
 * took. */
bool masks_walk(const struct policy_set *s, struct str root_name, struct json *root, bool only_look,
                uint64_t *ret_steps);

#endif

/* trail_point.h - where the records of a fleet, as one stream of the audit trail, stand behind an
 * entry: the next number, and the Merkle tree of all records before. It is a part of each copy of the
 * state, so every engine can go on with the stream. Pure. */
#ifndef FLEET_TRAIL_POINT_H
#define FLEET_TRAIL_POINT_H

#include "evidence/merkle.h"
#include "fleet/entry.h"

enum { TRAIL_POINT_BYTES_MAX = 16 + FRONTIER_BYTES_MAX };

struct trail_point {
    uint64_t seq;  /* of the next record, from 1 on */
    uint64_t term; /* of the record before; 0: there is none */
    struct frontier tree;
};

/* Behind the records of an entry that counts. False, and nothing is changed: its records are not the
 * ones that come next. */
bool trail_point_add(struct trail_point *p, const struct entry *e, struct hasher *h);

/* As bytes. False: they are not what trail_point_put() writes. */
void trail_point_put(struct buf *out, const struct trail_point *p);
bool trail_point_read(struct str bytes, struct trail_point *ret);

#endif

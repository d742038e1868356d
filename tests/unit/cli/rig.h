/* rig.h - the whole command line, run inside the test, against a peer that notes what it is asked. */
#ifndef TESTS_CLI_RIG_H
#define TESTS_CLI_RIG_H

#include "cli/cli.h"
#include "unit/publish/peer.h"

#define RIG_KEY "wk_01JD0000000000000000000000_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA_"

struct rig {
    struct peer *peer;
    char key[128];        /* "WRIT_KEY=wk_…", of right form */
    char engine[160], platform[160];
    char *out, *err;      /* what the latest run said */
};

struct rig *rig_create(void);
void rig_destroy(struct rig *r);
/* Runs `writ` with these words (ended by NULL); its exit status. Engine and platform are the peer,
 * WRIT_KEY is set unless `without_key`. */
int rig_run(struct rig *r, int without_key, ...) __attribute__((sentinel));
#define RUN(r, ...) rig_run((r), false, __VA_ARGS__, (char *)NULL)
#define RUN_WITHOUT_KEY(r, ...) rig_run((r), true, __VA_ARGS__, (char *)NULL)

#endif

/* export_file.h - the output of an export, and its position in the trail.
 *
 *   FILE         the rows. Up to the `bytes` of the state they are whole. The bytes after them are
 *                of an unfinished page; a resumed export cuts them off.
 *   FILE.export  the state, one JSON object: the options, bytes and events so far, and the last
 *                event's id. Replaced by rename, after FILE was synced.
 *
 * So after any end of an export, also kill -9 and a power cut, FILE and its state together define
 * exactly which events are in it. FILE is locked while it is written. Without a path the rows go to
 * standard output and there is no state. Both files have mode 0600, because they show what people
 * and agents did. */
#ifndef CLI_EXPORT_FILE_H
#define CLI_EXPORT_FILE_H

#include "cli/cli.h"

struct export_file {
    const char *path; /* NULL: standard output */
    char *state_path;
    int fd;          /* -1: none */
    bool is_new;     /* this run made it */
    struct buf page; /* rows that are not written yet */
    /* The state; views point into the arena of the run. */
    struct str asked;  /* the options as they were given: a resumed run must have the same */
    struct str target; /* their meaning when the export began */
    uint64_t bytes, events, last_id;
    struct str last_event; /* the event_id of last_id */
};

/* x->path, asked and target must be set. With `resume` the rest of the state and the target are
 * those of an earlier run, if there was one. Prints its own error: DONE, REFUSED or USAGE. */
int export_file_open(struct cli *c, struct export_file *x, bool resume);
/* Writes the page and then the state, whose last_id, last_event and events the caller has set.
 * Empties the page. */
int export_file_commit(struct cli *c, struct export_file *x);
/* After a run or an opening that failed: removes a file that it made and wrote nothing into. true:
 * the file has rows, and a run can continue it. */
bool export_file_keep(struct export_file *x);
void export_file_close(struct export_file *x);

#endif

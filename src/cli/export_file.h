/* export_file.h - where an export is written, and how far it has come.
 *
 *   FILE         the rows. Whole ones up to the `bytes` that the state names; what is behind them
 *                is of a page that was never finished, and is cut off when somebody goes on.
 *   FILE.export  the state, one JSON object: what was asked for, bytes and events so far, and the
 *                last event's id. Replaced by rename, after FILE was synced.
 *
 * So whatever ends an export, kill -9 and a power cut included, FILE and its state together say
 * exactly which events are in it. FILE is locked while somebody writes it. Without a path the rows
 * go to standard output and there is no state. Both files are the owner's alone (0600): what
 * people and agents did is nobody else's business. */
#ifndef CLI_EXPORT_FILE_H
#define CLI_EXPORT_FILE_H

#include "cli/cli.h"

struct export_file {
    const char *path; /* NULL: standard output */
    char *state_path;
    int fd;          /* -1: none */
    bool is_new;     /* this run made it */
    struct buf page; /* rows that are not written yet */
    /* The state; views are in the arena of the run. */
    struct str asked;  /* the options as they were given: who goes on asks for the same */
    struct str target; /* what they stood for when the export began */
    uint64_t bytes, events, last_id;
    struct str last_event; /* the event_id of last_id */
};

/* x->path, asked and target are set. With `resume` the rest of the state is that of an earlier run,
 * where there was one, and so is the target. Complains itself: DONE, REFUSED or USAGE. */
int export_file_open(struct cli *c, struct export_file *x, bool resume);
/* Writes the page that is in hand and then the state, whose last_id, last_event and events the
 * caller has moved; then the page is empty. */
int export_file_commit(struct cli *c, struct export_file *x);
/* After a run that failed, or an opening that did: takes away a file that it made and wrote nothing
 * into. true: after a run, there is something to go on with. */
bool export_file_keep(struct export_file *x);
void export_file_close(struct export_file *x);

#endif

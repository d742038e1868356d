/* member_inside.h - what fleet_start.c and fleet_member.c share. */
#ifndef ENGINE_MEMBER_INSIDE_H
#define ENGINE_MEMBER_INSIDE_H

#include "engine/engine.h"
#include "engine/fleet/fleet_lane.h"
#include "engine/fleet/fleet_trail.h"
#include "fleet/skips.h"
#include "pipeline/statelog/statelog.h"
#include "snapshot/fleet_snapshot.h"

/* An own entry on its way, or a counted one with revocations that are not settled. */
struct member_entry {
    struct member_entry *next;
    uint64_t position; /* of an own one */
    uint64_t offset;   /* UINT64_MAX: not read yet */
    uint64_t sealed_ns;
    bool restricts;
    uint64_t blocks[]; /* by reactor: that it makes committed; or that are settled before it */
};
struct member_entries {
    struct member_entry *first, *last;
};

struct member_reactor {
    _Atomic uint64_t turned_ms;
    _Atomic uint64_t prepared_term, prepared_block;
};

struct fleet_member {
    struct engine *engine;
    struct statelog *log;
    struct fleet fleet;
    struct entry_key key;
    struct fleet_id id;
    struct hasher *hasher;
    struct chance chance;
    bool was_here, seeds;
    char topic[FLEET_NAME_MAX + 16];
    struct skips skips;
    char skips_text[SKIPS_BYTES_MAX];
    struct topic_access access; /* of the log: its texts are the options' */
    struct disk *snapshots;     /* their folder */

    /* the member's thread, and the main thread before it */
    struct fleet_trail *trail; /* what was read, as a stream */
    uint64_t sealed_seq;       /* of the next record in it, behind what was sealed */
    uint64_t published_end;    /* that the publisher was woken for */
    uint64_t handed;           /* entries below it are in the lanes */
    struct member_entries sealed, unsettled;
    enum entry_kind in_flight;
    bool applies; /* waits until all reactors have seen the revocation `applies_place` */
    uint64_t applies_place, applies_next, hurry_next;
    uint64_t moved_ns; /* when the log last moved for this leader, or nothing waited */
    unsigned first_lane;
    struct buf records, out;
    bool has_ended;
    void (*ended)(void *context);
    void *context;
    struct metrics_sheet *sheet;
    struct fleet_lane *lanes;
    unsigned count;

    pthread_t thread;
    bool runs;
    atomic_bool stopping, leaving;

    /* what a person wants of this leader */
    atomic_bool hands_over, raises;
    uint64_t hand_over_ms; /* since when; 0: not yet. The member's thread */
    struct member_progress progress;
    uint64_t trimmed, trim_due_ms; /* the log below it was given up; when the next is due */

    /* the view */
    _Atomic uint64_t kept; /* as in a heartbeat */
    _Atomic uint64_t read_bytes, read_entries, read_records;
    _Atomic uint64_t term, log_ms, prepares, admits_until_ms, records_until_ms;
    atomic_bool leads, is_over, stalls, reaches, has_leader;
    struct member_reactor reactors[FLEET_REACTORS_MAX];
    pthread_mutex_t lock; /* guards: */
    pthread_cond_t left;
    bool has_left;
    struct fleet_snapshot *wanted_point; /* of the thread that makes snapshots; NULL: none */
    struct member_progress point_progress;
    pthread_cond_t given;
    struct fleet_leader leader;
    struct roster roster;
    struct incarnation successor; /* to which it hands over */
    uint64_t next_offset;
    uint16_t format;
    char broken[FLEET_REASON_TEXT]; /* "": reading goes on */
    uint64_t broken_next;           /* an entry before it cannot be applied; 0: all can */
};

/* A counted entry may show who leads: its TERM, or a heartbeat where the TERM is in a snapshot. True:
 * that is new. */
bool member_note_leader(struct fleet_member *m, const struct entry *e);
/* What was read, for the thread that makes snapshots. */
void member_note_progress(struct fleet_member *m, const struct statelog_message *message,
                          const struct entry *counted);
/* Reads one message: what counts is put to fleet_read(). *ret: of a counted or stale entry. */
enum log_result member_read(struct fleet_member *m, const struct statelog_message *message,
                            struct entry *ret);
/* Whether the records end the access of somebody. */
bool member_restricts(struct str records);
/* Messages that a person has decided to pass over: reads the decisions; whether this message, which is
 * no entry (`what`: why), is one of them; after the rebuild, which began at `from`, whether all of them
 * are about such messages. */
enum err member_read_skips(struct fleet_member *m, struct fault *f);
bool member_passes_over(struct fleet_member *m, uint64_t offset, const char *what);
enum err member_check_skips(const struct fleet_member *m, uint64_t from, struct fault *f);
/* What a person wants of the leader is done, or given up; in each turn of the member's thread. */
void member_person_turn(struct fleet_member *m);
/* The reason why reading ended, for people. */
void member_end_text(const struct fleet_member *m, char to[FLEET_REASON_TEXT]);

#endif

/* slots.h - what the mirror keeps in Redis: names of keys, scripts, and who owns which slot.
 *
 * Everything of slot N is under keys with the hash tag {slot-N}, so a cluster keeps it together and
 * one script may change it at once. schemas/redis.md is the reference; change both. */
#ifndef MIRROR_SLOTS_H
#define MIRROR_SLOTS_H

#include "pipeline/mirror/state_follower.h"
#include "pipeline/mirror/redis.h"
#include "shards/serialize.h"
#include "shards/slot.h"

enum {
    OWNER_TEXT = 64 + 1 + JOURNAL_EPOCH_TEXT + 1,
    POSITION_TEXT = 24,
    REDIS_KEY_TEXT = 48,
    SCRIPT_DIGEST_TEXT = 40
};

enum redis_key_name {
    SLOT_OWNER,
    SLOT_POSITION,
    SLOT_FIELDS,
    SLOT_HASH,
    SLOT_NEXT = SLOT_HASH + SHARD_MIRRORED,
    SLOT_NAMES = SLOT_NEXT + SHARD_MIRRORED
};

/* "writ:{slot-17}:tokens"; SLOT_HASH + an object, SLOT_NEXT + an object (being rewritten). */
struct str redis_key_put(unsigned slot, unsigned name, char to[REDIS_KEY_TEXT]);

/* ---- scripts ---- */

enum script { SCRIPT_CLAIM, SCRIPT_WRITE, SCRIPT_STAGE, SCRIPT_SWAP, SCRIPTS };

struct scripts {
    char digests[SCRIPTS][SCRIPT_DIGEST_TEXT];
    unsigned loaded;
    bool failed;
};

/* SCRIPT LOAD of all; ERR_STORE_UNAVAILABLE. */
enum err scripts_load(struct redis_link *l, struct scripts *s, struct fault *f);

/* A script call of one slot: arguments are views until it is sent. */
enum { SCRIPT_ARGUMENTS_MAX = 4000, SCRIPT_KEYS_MAX = 11 };
struct script_call {
    enum script script;
    unsigned slot;
    size_t keys;
    size_t count; /* of arguments, from the command's own on */
    char names[SCRIPT_KEYS_MAX][REDIS_KEY_TEXT];
    struct str arguments[SCRIPT_ARGUMENTS_MAX];
};
/* Begin; add the arguments behind the slot's own keys, in the script's order,
 * SCRIPT_ARGUMENTS_MAX at most; send. */
void script_call_begin(struct script_call *c, enum script script, unsigned slot);
void script_call_add(struct script_call *c, struct str argument);
/* By digest; or, where the server forgot the script, by its text. */
void script_call_send(struct script_call *c, struct redis_link *l, const struct scripts *s,
                      bool by_text, void (*answered)(void *context, const struct redis_value *v),
                      void *context);

/* ---- who owns what ---- */

struct slot_seen {
    char owner[OWNER_TEXT]; /* "" = none */
    char at[POSITION_TEXT]; /* the position's own text; "" = none */
    uint64_t position;      /* 0 unless has_position */
    uint64_t fields;        /* that were written into the four hashes; 0 unless has_fields */
    bool has_position, has_fields;
    bool is_whole; /* "adopted": a whole image, as of another journal's position */
    bool strange;  /* there is something that we never write */
};

/* Reads owner, position and number of fields of every slot. ERR_STORE_UNAVAILABLE. */
enum err slots_look(struct redis_link *l, struct slot_seen seen[LIMIT_SLOTS], struct fault *f);

#define NO_FIELDS UINT32_MAX /* one of the hashes is no hash */
struct slot_sizes {
    uint32_t fields[LIMIT_SLOTS]; /* that the four hashes hold together */
    bool failed;
    struct fault *fault;
};
/* Counts the fields of the wanted slots. ERR_STORE_UNAVAILABLE. */
enum err slots_count(struct redis_link *l, const bool wanted[LIMIT_SLOTS], struct slot_sizes *ret,
                     struct fault *f);

/* "node:epoch" → both parts. False: not of this form. */
bool owner_read(struct str owner, struct str *ret_node, struct str *ret_epoch);
/* Whether `word` is one of a text's parts between commas. */
bool list_has(const char *list, struct str word);

/* ---- objects in hashes ---- */

/* a value's first byte; other values are counters of HINCRBY */
enum { FIELD_IMAGE = 'I', FIELD_DELTA = 'D', FIELD_PLACE = 'P' };

/* What one delta entry does to the hashes: at most three operations, and none where it
 * is not mirrored. */
struct slot_op {
    char code; /* 'S' HSET, 'I' HINCRBY, 'D' HDEL */
    enum shard_object object;
    struct str field, value;
};
enum { SLOT_OPS_MAX = 3 };
/* Texts are put into `out` (views into it, so it must not move: check room first). ERR_CORRUPT. */
enum err slot_ops(const struct delta_entry *e, uint64_t seq, unsigned index, struct str event,
                  struct buf *out, struct slot_op ops[SLOT_OPS_MAX], size_t *ret_count);
/* No more bytes than this are put for one entry. */
size_t slot_ops_most(const struct delta_entry *e, struct str event);
/* The field that an image of this object has. */
void slot_field_put(struct buf *out, const struct shard_entry *e);

/* Everything of one slot into a shard; *ret_fields says how many fields there were, but for
 * ERR_STORE_UNAVAILABLE. Others: ERR_CORRUPT, ERR_FULL. */
enum err slot_take(struct redis_link *l, unsigned slot, struct shard *into, uint64_t *ret_fields,
                   struct fault *f);

#endif

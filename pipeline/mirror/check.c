/* check.c - before serving: whether this Redis may be used, and taking over what another node left.
 *
 *   owners found          our own journal        answer
 *   none                  any                    yes (it is rewritten); with --adopt: nothing is there to adopt
 *   ours, epoch known     reaches its positions  yes
 *   ours, epoch known     ends before them, or   no: the disk went back in time
 *                         that epoch ended so
 *   ours, epoch unknown   any                    no: another history under our name (a lost disk: a new
 *                                                name and --adopt)
 *   another node's        empty                  no, unless --adopt names it, all of it is whole, and it stands still
 *   another node's        has records            no: --adopt is for a new data directory
 *   adopted already       any                    yes: a crash came between adopting and claiming */
#include <inttypes.h>
#include <stdio.h>

#include "base/check.h"
#include "base/log.h"
#include "snapshot/replay.h"
#include "pipeline/mirror/slots.h"

struct found {    /* by a look at all slots */
    size_t owned; /* slots */
    /* the furthest position of ours that our journal never had, and what it has; 0: none */
    uint64_t ahead, ahead_of;
    char other[OWNER_TEXT]; /* an owner that is neither us nor adopted already; "" = none */
    bool unknown;           /* …and its node has our name */
    char owners[LINEAGE_ADOPTED_TEXT]; /* all that are not ours, with commas */
    bool too_many;
    /* of those: a slot without a position, so what it holds is not all of it */
    bool has_unfinished;
    unsigned unfinished;
    bool all_adopt;    /* they are all nodes that --adopt names */
    bool has_our_name; /* one of them is another history under our name */
};

struct giving {
    enum err (*each)(void *context, unsigned slot, struct str entry);
    void *context;
};

struct look { /* one Redis, and what it is judged by */
    struct redis_link *link;
    const char *node, *adopt; /* ours; the nodes that --adopt names, "" = none */
    struct lineage *past;
    uint64_t last_seq, now_ms;
    struct giving giving;   /* who takes what is adopted */
    struct slot_seen *seen; /* LIMIT_SLOTS */
    struct found found;
};

static void note_owner(struct found *r, const char *owner)
{
    size_t size = strlen(r->owners), more = strlen(owner);
    if (list_has(r->owners, str_from(owner))) return;
    if (size + more + 2 > sizeof r->owners) {
        r->too_many = true;
        return;
    }
    if (size > 0) r->owners[size++] = ',';
    memcpy(r->owners + size, owner, more + 1);
}

static enum err look_over(struct look *l, struct fault *f)
{
    const struct lineage *past = l->past;
    struct found *found = &l->found;
    *found = (struct found){.all_adopt = true};
    for (unsigned i = 0; i < LIMIT_SLOTS; i++) {
        const struct slot_seen *seen = &l->seen[i];
        struct str owner = str_from(seen->owner), their_node, epoch;
        if (owner.size == 0 && !seen->strange) continue;
        found->owned++;
        if (seen->strange || !owner_read(owner, &their_node, &epoch))
            return fault_set(
                f, ERR_EXISTS, "",
                "redis.url: slot %u holds what no engine wrote; this Redis is used by something else, or by a newer engine",
                i);
        bool our_name = str_equal(their_node, str_from(l->node));
        if (our_name && lineage_knows(past, epoch)) {
            uint64_t end = lineage_end(past, epoch, l->last_seq);
            if (!seen->has_position || seen->position <= end || seen->position <= found->ahead)
                continue;
            found->ahead = seen->position;
            found->ahead_of = end;
            continue;
        }
        if (list_has(past->adopted, owner)) continue;
        if (!seen->has_position && !seen->is_whole && !found->has_unfinished) {
            found->has_unfinished = true;
            found->unfinished = i;
        }
        memcpy(found->other, seen->owner, OWNER_TEXT);
        found->unknown = our_name;
        found->has_our_name = found->has_our_name || our_name;
        found->all_adopt = found->all_adopt && list_has(l->adopt, their_node);
        note_owner(found, seen->owner);
    }
    return ERR_OK;
}

/* A directory without any state. One that was stopped while it adopted is not new any more. */
static bool is_new(const struct look *l)
{
    return l->last_seq == 0 && l->past->position == 0 && l->past->adopted[0] == '\0';
}

/* ---- adopting ---- */

static enum err give(void *context, struct str entry)
{
    struct giving *g = context;
    unsigned slot;
    check(shard_entry_slot(entry, &slot));
    return g->each(g->context, slot, entry);
}

/* Slots are read one after another. What its engine wrote meanwhile would be in none of them,
 * and our claim erases it. */
static enum err stood_still(const struct look *l, struct fault *f)
{
    static struct slot_seen again[LIMIT_SLOTS];
    const struct slot_seen *seen = l->seen;
    enum err err = slots_look(l->link, again, f);
    if (err != ERR_OK) return err;
    for (unsigned i = 0; i < LIMIT_SLOTS; i++) {
        if (strcmp(again[i].owner, seen[i].owner) == 0 && strcmp(again[i].at, seen[i].at) == 0 &&
            !again[i].strange)
            continue;
        return fault_set(
            f, ERR_EXISTS, "",
            "adopt: slot %u of this Redis changed while it was read, and is at \"%s\" of \"%s\" now: an engine still "
            "writes to it. Stop that one, then start this one again",
            i, again[i].at, again[i].owner);
    }
    return ERR_OK;
}

/* What was evicted, or deleted by hand, may be a suspension. */
static enum err take_whole(const struct look *l, unsigned slot, struct shard *into, struct fault *f)
{
    const struct slot_seen *seen = &l->seen[slot];
    uint64_t fields;
    enum err err = slot_take(l->link, slot, into, &fields, f);
    if (err == ERR_STORE_UNAVAILABLE || (seen->has_fields && seen->fields == fields)) return err;
    char written[24] = "an unknown number";
    if (seen->has_fields) snprintf(written, sizeof written, "%" PRIu64, seen->fields);
    return fault_set(
        f, ERR_BAD_VALUE, "",
        "adopt: slot %u of this Redis holds %" PRIu64
        " fields, and %s were written: keys were evicted or deleted, so its state is not whole there. Restore an older copy "
        "of this Redis, or empty it and give that state up",
        slot, fields, written);
}

static enum err adopt_all(struct look *l, struct fault *f)
{
    struct lineage *past = l->past;
    struct replay *replay = replay_create();
    if (replay == NULL) return fault_set(f, ERR_FULL, "", "out of memory");
    enum err err = ERR_OK;
    for (unsigned i = 0; err == ERR_OK && i < LIMIT_SLOTS; i++)
        err = take_whole(l, i, replay->shard, f);
    if (err == ERR_OK) err = stood_still(l, f);
    uint64_t tokens = 0, reviews = 0;
    if (err == ERR_OK) {
        shard_prune(replay->shard, l->now_ms);
        shard_close_open(replay->shard, l->now_ms, &tokens, &reviews);
        err = shard_save(replay->shard, give, &l->giving);
        if (err != ERR_OK)
            (void)fault_set(f, err, "", "what was adopted cannot be loaded: %s", err_sentence(err));
    }
    replay_destroy(replay);
    if (err != ERR_OK) return err;
    snprintf(past->adopted, sizeof past->adopted, "%s", l->found.owners);
    past->adopted_at_known = true;
    for (unsigned i = 0; i < LIMIT_SLOTS; i++) past->adopted_at[i] = l->seen[i].position;
    log_text(
        LOG_ERROR, "adopted",
        "the state of %s was taken from Redis: what it did last may be missing, so %" PRIu64
        " counted tokens came back revoked and %" PRIu64
        " pending or approved reviews expired. No token from before is accepted. Limits may let through again what they let through last. "
        "The engine asks its platform for suspensions that are missing: suspend the actors again whose suspension it does not have either",
        past->adopted, tokens, reviews);
    return ERR_OK;
}

static enum err refuse_other(const struct look *l, struct fault *f)
{
    struct str other = str_from(l->found.other), their_node, epoch;
    check(owner_read(other, &their_node, &epoch));
    if (l->found.unknown && l->last_seq > 0)
        return fault_set(
            f, ERR_EXISTS, "",
            "redis.url: this Redis holds the state of epoch %.*s of %s, which this journal does not know: another history "
            "under the same name. Give one of the two engines another Redis, or start with a new data directory, "
            "a new node name and --adopt %.*s",
            STR_FORMAT(epoch), l->node, STR_FORMAT(their_node));
    return fault_set(
        f, ERR_EXISTS, "",
        "redis.url: this Redis holds the state of engine %.*s, and this data directory is %s's. If %.*s is gone for good, "
        "start with a new data directory, a new node name and --adopt %.*s; if not, give this engine a Redis of its own",
        STR_FORMAT(their_node), l->node, STR_FORMAT(their_node), STR_FORMAT(their_node));
}

static enum err refuse_unfinished(const struct look *l, struct fault *f)
{
    struct str owner = str_from(l->seen[l->found.unfinished].owner), node, epoch;
    check(owner_read(owner, &node, &epoch));
    return fault_set(
        f, ERR_BAD_VALUE, "",
        "adopt: slot %u of this Redis has no position: %.*s ended before it had rewritten it, so its state is not whole "
        "there. Start %.*s on its own data directory until it is; if that is gone, restore an older copy of this Redis, or "
        "empty it and give that state up",
        l->found.unfinished, STR_FORMAT(node), STR_FORMAT(node));
}

static enum err adopt_or_refuse(struct look *l, struct fault *f)
{
    const struct found *found = &l->found;
    if (l->adopt[0] == '\0' || !found->all_adopt) return refuse_other(l, f);
    if (!is_new(l))
        return fault_set(f, ERR_BAD_VALUE, "",
                         "adopt: this data directory has a state of its own, up to seq %" PRIu64
                         "; --adopt is for a new one",
                         l->last_seq);
    /* The platform has records of that name already: ours under it, from 1
     * on, would never be taken. */
    if (found->has_our_name)
        return fault_set(
            f, ERR_BAD_VALUE, "",
            "adopt: this engine is %s, too, and the platform takes no second history under one name. "
            "Give it a node name that no engine has had (`node`)",
            l->node);
    if (found->too_many)
        return fault_set(f, ERR_BAD_VALUE, "", "adopt: this Redis has had too many owners: %s …",
                         found->owners);
    if (found->has_unfinished) return refuse_unfinished(l, f);
    return adopt_all(l, f);
}

/* ---- the check ---- */

static enum err judge(struct look *l, struct fault *f)
{
    static struct slot_seen seen[LIMIT_SLOTS];
    const struct found *found = &l->found;
    l->seen = seen;
    enum err err = slots_look(l->link, seen, f);
    if (err == ERR_OK) err = look_over(l, f);
    if (err != ERR_OK) return err;
    if (found->owned == 0 && l->adopt[0] != '\0' && is_new(l))
        return fault_set(f, ERR_BAD_VALUE, "",
                         "adopt: this Redis is empty; there is nothing of %s to take", l->adopt);
    if (found->ahead > 0)
        return fault_set(
            f, ERR_BAD_VALUE, "",
            "redis.url: this Redis has records up to %" PRIu64
            ", this journal has that history up to %" PRIu64 ": its disk went "
            "back in time. Keep this data directory read-only and start with a new one, a new node name and --adopt %s",
            found->ahead, found->ahead_of, l->node);
    return found->other[0] == '\0' ? ERR_OK : adopt_or_refuse(l, f);
}

enum err mirror_check(const struct mirror_redis *redis, const struct mirror_judge *by,
                      bool *ret_reached, struct fault *f)
{
    struct redis_link_options options = {.user = redis->user,
                                         .password_file = redis->password_file,
                                         .ca_file = redis->ca_file,
                                         .timeout_ms = redis->timeout_ms};
    struct look look = {.node = by->node,
                        .adopt = redis->adopt,
                        .past = by->past,
                        .last_seq = by->last_seq,
                        .now_ms = by->now_ms,
                        .giving = {.each = by->each, .context = by->context}};
    *ret_reached = false;
    if (redis->url[0] == '\0')
        return redis->adopt[0] == '\0'
                   ? ERR_OK
                   : fault_set(f, ERR_BAD_VALUE, "",
                               "adopt: needs redis.url, where that engine's state is");
    enum err err = redis_address_read(str_from(redis->url), &options.address, f);
    if (err == ERR_OK) err = redis_link_check(&options, f);
    if (err != ERR_OK) return err;
    options.loop = loop_create();
    look.link = redis_link_create(&options);
    err = redis_link_open(look.link, f);
    bool opened = err == ERR_OK;
    if (opened) err = judge(&look, f);
    *ret_reached = opened && err == ERR_OK;
    redis_link_destroy(look.link);
    loop_destroy(options.loop);
    if (err != ERR_STORE_UNAVAILABLE || (redis->adopt[0] != '\0' && is_new(&look))) return err;
    log_line(LOG_WARNING, "redis_away", "text", f->text, "then",
             "serving without its copy; it is written when it is back", NULL);
    return ERR_OK;
}

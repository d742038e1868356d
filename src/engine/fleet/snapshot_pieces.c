/* snapshot_pieces.c - GET /v1/fleet/snapshot: the newest snapshot of this engine, for another one.
 *
 * The file is read on the offload thread. The answer is JSON with base64, as any other answer: a
 * snapshot is sent seldom, and needs no second kind of reply. A snapshot that was named is sent as
 * long as it is there; its reader begins again with another one. */
#include <inttypes.h>

#include "base/check.h"
#include "crypto/base64.h"
#include "engine/engine.h"
#include "engine/fleet/fleet_copy.h"
#include "engine/handlers.h"
#include "engine/runtime/caller_operation.h"

enum { STEP_BYTES = 48 << 10 }; /* a multiple of three */
_Static_assert((int)STEP_BYTES % 3 == 0, "the digits of two steps are those of one");

struct piece {
    struct operation operation;
    uint64_t next; /* of the snapshot; UINT64_MAX: the newest */
    uint64_t offset;
    struct fault fault;
    struct buf text;
};

static struct piece *of(struct operation *e) { return link_owner(e, struct piece, operation); }

/* ---- on the offload thread ---- */

static enum err put_bytes(struct disk *d, int file, uint64_t at, uint64_t size, struct buf *out)
{
    uint8_t step[STEP_BYTES];
    enum err err = ERR_OK;
    while (err == ERR_OK && size > 0) {
        size_t part = size < sizeof step ? (size_t)size : sizeof step;
        err = d->read(d->state, file, step, part, at);
        if (err == ERR_OK) base64_put(out, str_of((const char *)step, part), 0);
        at += part;
        size -= part;
    }
    return err;
}

static enum err put_piece(struct piece *p, struct disk *d, int file, const char *name)
{
    struct buf *out = &p->text;
    uint64_t size;
    enum err err = d->size(d->state, file, &size);
    if (err != ERR_OK) return err;
    if (p->offset > size) return ERR_OUT_OF_RANGE;
    uint64_t part = size - p->offset;
    if (part > FLEET_PIECE_BYTES) part = FLEET_PIECE_BYTES;
    size_t room = (size_t)(part + 2) / 3 * 4 + 256;
    char *bytes = arena_array(p->operation.arena, char, room);
    if (bytes == NULL) return ERR_FULL;
    *out = buf_over(bytes, room);
    buf_printf(out, "{\"snapshot\":\"%s\",\"size\":%" PRIu64 ",\"offset\":%" PRIu64 ",\"bytes\":\"",
               name, size, p->offset);
    err = put_bytes(d, file, p->offset, part, out);
    buf_put_literal(out, "\"}");
    check(!out->overflow);
    return err;
}

static void read_piece(struct operation *e)
{
    struct piece *p = of(e);
    struct disk *d = e->engine_reactor->engine->member->snapshots;
    char name[STATE_FILE_NAME];
    uint64_t newest, oldest;
    int file;
    if (p->next == UINT64_MAX && fleet_snapshots(d, &newest, &oldest) > 0) p->next = newest;
    fleet_snapshot_name(p->next, name);
    enum err err = p->next == UINT64_MAX ? ERR_NOT_FOUND : d->open(d->state, name, false, &file);
    if (err == ERR_OK) {
        err = put_piece(p, d, file, name);
        d->close(d->state, file);
    }
    if (err == ERR_NOT_FOUND)
        (void)fault_set(&p->fault, err, "", "this engine has no such snapshot of the fleet");
    else if (err == ERR_OUT_OF_RANGE)
        (void)fault_set(&p->fault, err, "", "offset: is behind the end of the snapshot");
    else if (err != ERR_OK)
        (void)fault_plain(&p->fault, err);
}

/* ---- on the reactor ---- */

static enum step_result read_it(struct operation *e)
{
    return operation_offload(e, read_piece, &of(e)->fault);
}

static enum step_result was_read(struct operation *e)
{
    struct piece *p = of(e);
    if (e->call.err != ERR_OK || p->fault.err != ERR_OK)
        return caller_operation_refuse(e, &p->fault);
    return operation_reply(e, 200, buf_view(&p->text), (struct str){0});
}

static const struct step piece_steps[] = {{"read", read_it, was_read}};
static const struct process piece_process = PROCESS(piece_steps);

static enum err admit(struct engine_reactor *w, struct http_exchange *x, struct caller *ret,
                      struct fault *f)
{
    enum err err = api_admit(engine_reactor_api(w), x, x->route->roles, world_now_ms(), ret, f);
    if (err != ERR_OK) return err;
    if (!str_equal(ret->key->tenant, STR("*")))
        return fault_set(f, ERR_WRONG_TENANT, "",
                         "the state of a fleet is that of all tenants: this needs the key of an "
                         "engine, whose tenant is *");
    if (w->engine->member != NULL) return ERR_OK;
    return fault_set(f, ERR_NOT_FOUND, "", "this engine is in no fleet");
}

static enum err read_parameters(const struct http_exchange *x, struct piece *p, struct fault *f)
{
    struct str offset, name;
    enum err err = http_parameter(x, STR("offset"), &offset, f);
    if (err == ERR_OK) err = http_parameter(x, STR("snapshot"), &name, f);
    if (err != ERR_OK) return err;
    p->next = UINT64_MAX;
    if (!str_is_empty(offset) &&
        (!str_to_u64(offset, &p->offset) || p->offset > fleet_snapshot_bytes_max))
        return fault_set(f, ERR_BAD_PARAMETER, "", "offset: must be a number of bytes");
    if (!str_is_empty(name) && !fleet_snapshot_name_read(name, &p->next))
        return fault_set(f, ERR_BAD_PARAMETER, "",
                         "snapshot: must be a name that an earlier answer had");
    return ERR_OK;
}

void fleet_snapshot_handle(void *context, struct http_exchange *x)
{
    struct engine_reactor *w = context;
    struct piece *p = operation_begin(w, x, sizeof *p);
    struct fault f;
    if (p == NULL) return;
    enum err err = admit(w, x, &p->operation.caller, &f);
    if (err == ERR_OK) err = read_parameters(x, p, &f);
    if (err == ERR_OK)
        operation_start(&p->operation, &piece_process, 0);
    else
        caller_operation_refuse(&p->operation, &f);
}

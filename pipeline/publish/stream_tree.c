#include "pipeline/publish/stream_tree.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/check.h"
#include "base/file.h"
#include "base/log.h"
#include "base/time.h"
#include "base/world.h"
#include "crypto/base64.h"
#include "evidence/checkpoint.h"
#include "evidence/merkle.h"
#include "evidence/note.h"
#include "evidence/origin.h"
#include "evidence/signing_key.h"

enum {
    SAVE_MS = 5000, /* so much is read again after a crash */
    STATE_BYTES_MAX = 8 << 10,
    NOTE_TEXT_MAX = 8 << 10,
};

/* The file, line by line: this, node, epoch of the last leaf, base, frontier (base64), SHA-256 of all before (hex). */
#define STATE_MARK "writ evidence tree 1"

struct stream_tree {
    char path[PATH_MAX], fresh_path[PATH_MAX];
    bool has_file;
    struct str node, journal;
    struct ed25519 *key;
    struct hasher *hasher;
    uint64_t base; /* 0: no tree */
    struct frontier leaves;
    char epoch[RUN_EPOCH_BYTES]; /* of the last leaf, if there is one */
    struct frontier before;      /* the leaves below from_seq */
    uint64_t from_seq;
    uint64_t saved_ms;
    bool is_saved;
    struct buf origin, text, note, note_digits, frontier_digits;
};

/* ---- the state's file ---- */

static void put_frontier(const struct frontier *f, struct buf *out)
{
    char bytes[FRONTIER_BYTES_MAX];
    struct buf b = buf_over(bytes, sizeof bytes);
    frontier_put(&b, f);
    base64_put(out, buf_view(&b), 0);
}

static bool read_frontier(struct str digits, struct frontier *ret)
{
    uint8_t bytes[STATE_BYTES_MAX];
    size_t size;
    if (digits.size > sizeof bytes || !base64_read(digits, bytes, &size)) return false;
    return frontier_read(str_of((const char *)bytes, size), ret);
}

static bool write_file(struct stream_tree *t, struct str state)
{
    if (unlink(t->fresh_path) != 0 && errno != ENOENT) return false;
    return file_make(t->fresh_path, state) && rename(t->fresh_path, t->path) == 0;
}

static void save(struct stream_tree *t)
{
    char bytes[STATE_BYTES_MAX], hex[SHA256_HEX];
    struct buf b = buf_over(bytes, sizeof bytes);
    if (!t->has_file || t->base == 0 || t->leaves.size == 0 || t->is_saved) return;
    buf_printf(&b, STATE_MARK "\n%.*s\n%.*s\n%llu\n", STR_FORMAT(t->node), RUN_EPOCH_BYTES,
               t->epoch, (unsigned long long)t->base);
    put_frontier(&t->leaves, &b);
    buf_put_byte(&b, '\n');
    sha256_write_hex(hasher_sha256(t->hasher, buf_view(&b)), hex);
    buf_put(&b, str_of(hex, sizeof hex));
    buf_put_byte(&b, '\n');
    check(!b.overflow);
    t->saved_ms = (world_monotonic_ns() / 1000000);
    t->is_saved = write_file(t, buf_view(&b));
    if (!t->is_saved)
        log_text(LOG_ERROR, "evidence_not_saved",
                 "%s cannot be written: %m. After a restart the tree begins again", t->path);
}

static bool read_state(struct stream_tree *t, struct str state)
{
    struct str rest = state, mark, node, epoch, base, frontier, digest;
    char hex[SHA256_HEX];
    if (!str_split(&rest, '\n', &mark) || !str_split(&rest, '\n', &node) ||
        !str_split(&rest, '\n', &epoch) || !str_split(&rest, '\n', &base) ||
        !str_split(&rest, '\n', &frontier))
        return false;
    struct str hashed = str_of(state.bytes, (size_t)(rest.bytes - state.bytes));
    if (!str_split(&rest, '\n', &digest) || rest.size != 0) return false;
    sha256_write_hex(hasher_sha256(t->hasher, hashed), hex);
    if (epoch.size != sizeof t->epoch) return false;
    memcpy(t->epoch, epoch.bytes, sizeof t->epoch);
    return str_equal(mark, STR(STATE_MARK)) && str_equal(digest, str_of(hex, sizeof hex)) &&
           str_equal(node, t->node) && str_to_u64(base, &t->base) && t->base > 0 &&
           read_frontier(frontier, &t->leaves) && t->leaves.size > 0;
}

static void load(struct stream_tree *t)
{
    char bytes[STATE_BYTES_MAX];
    size_t size = 0;
    int fd = open(t->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) return;
    bool read = fd >= 0 && file_read(fd, bytes, sizeof bytes, &size);
    if (fd >= 0) close(fd);
    if (read && read_state(t, str_of(bytes, size))) {
        t->before = t->leaves;
        t->from_seq = t->base + t->leaves.size;
        t->is_saved = true;
        return;
    }
    t->base = 0;
    log_text(LOG_WARNING, "evidence_state",
             "%s is damaged, or of another node; the stream gets a new tree", t->path);
}

/* ---- the tree ---- */

enum err stream_tree_open_unsaved(const char *data, const char *node, struct stream_tree **ret,
                                  struct fault *f)
{
    struct stream_tree *t = calloc(1, sizeof *t);
    check(t != NULL); /* only at boot */
    enum err err = signing_key_open(data, "evidence", &t->key, f);
    if (err != ERR_OK) {
        free(t);
        return err;
    }
    snprintf(t->path, sizeof t->path, "%s/evidence.tree", data);
    snprintf(t->fresh_path, sizeof t->fresh_path, "%s/evidence.tree.new", data);
    t->node = str_from(strdup(node));
    t->journal = STR("0");
    t->hasher = hasher_create();
    buf_init(&t->origin, 256, ORIGIN_BYTES_MAX);
    struct buf *const texts[] = {&t->text, &t->note, &t->note_digits, &t->frontier_digits};
    for (size_t i = 0; i < 4; i++) buf_init(texts[i], 1 << 10, NOTE_TEXT_MAX);
    *ret = t;
    return ERR_OK;
}

enum err stream_tree_open(const char *data, const char *node, struct stream_tree **ret,
                          struct fault *f)
{
    enum err err = stream_tree_open_unsaved(data, node, ret, f);
    if (err != ERR_OK) return err;
    (*ret)->has_file = true;
    load(*ret);
    return ERR_OK;
}

void stream_tree_close(struct stream_tree *t)
{
    if (t == NULL) return;
    save(t);
    struct buf *const texts[] = {&t->origin, &t->text, &t->note, &t->note_digits,
                                 &t->frontier_digits};
    for (size_t i = 0; i < 5; i++) buf_fini(texts[i]);
    ed25519_destroy(t->key);
    hasher_destroy(t->hasher);
    free((char *)(uintptr_t)t->node.bytes);
    free(t);
}

uint64_t stream_tree_next(const struct stream_tree *t)
{
    return t->base == 0 ? 0 : t->base + t->leaves.size;
}

void stream_tree_begin(struct stream_tree *t, uint64_t base)
{
    check(base > 0);
    t->base = t->from_seq = base;
    t->leaves = t->before = (struct frontier){0};
    t->is_saved = false;
    t->saved_ms = 0; /* with the first append */
}

void stream_tree_resume(struct stream_tree *t, uint64_t next, const struct frontier *frontier)
{
    check(next > frontier->size);
    t->base = next - frontier->size;
    t->from_seq = next;
    t->leaves = t->before = *frontier;
}

struct str stream_tree_epoch(const struct stream_tree *t)
{
    return t->leaves.size == 0 ? (struct str){0} : str_of(t->epoch, sizeof t->epoch);
}

void stream_tree_append(struct stream_tree *t, struct str epoch, uint64_t first_seq,
                        const struct sha256 *leaves, uint64_t count)
{
    uint64_t next = stream_tree_next(t);
    check(next > 0 && first_seq <= next && epoch.size == sizeof t->epoch);
    if (first_seq + count <= next) return;
    t->from_seq = next;
    t->before = t->leaves;
    for (uint64_t seq = next; seq < first_seq + count; seq++)
        frontier_append(&t->leaves, t->hasher, &leaves[seq - first_seq]);
    memcpy(t->epoch, epoch.bytes, sizeof t->epoch);
    t->is_saved = false;
    if (t->saved_ms == 0 || (world_monotonic_ns() / 1000000) - t->saved_ms >= SAVE_MS) save(t);
}

bool stream_tree_sign(struct stream_tree *t, struct run_checkpoint *ret)
{
    struct buf *const texts[] = {&t->origin, &t->text, &t->note, &t->note_digits,
                                 &t->frontier_digits};
    for (size_t i = 0; i < 5; i++) buf_clear(texts[i]);
    origin_put_tree(&t->origin, t->node, t->journal, t->base);
    const struct checkpoint c = {.origin = buf_view(&t->origin),
                                 .size = t->leaves.size,
                                 .root = frontier_root(&t->leaves, t->hasher)};
    checkpoint_put(&t->text, &c);
    if (!note_sign(&t->note, buf_view(&t->text), c.origin, t->key)) return false;
    base64_put(&t->note_digits, buf_view(&t->note), 0);
    put_frontier(&t->before, &t->frontier_digits);
    for (size_t i = 0; i < 5; i++)
        if (texts[i]->overflow) return false;
    *ret = (struct run_checkpoint){.from_seq = t->from_seq,
                                   .note = buf_view(&t->note_digits),
                                   .frontier = buf_view(&t->frontier_digits)};
    return true;
}

/* fuzz_ingest.c - bodies of POST /api/v1/audit/ingest: as a stream's lines, one event, an array,
 * NDJSON. The first byte chooses. A refused body must leave no row; a taken one must be all
 * duplicates when it comes again. The store lies in TMPDIR (best a tmpfs) and starts empty each
 * few thousand runs. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/check.h"
#include "base/log.h"
#include "pipeline/ingest/post.h"
#include "store/set.h"
#include "store/store.h"

enum { RUNS_PER_STORE = 4000 };

static const struct pepper pepper = {{1}};

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static struct store *store;
static char path[300];
static uint64_t next_seq;

static void remove_store(void)
{
    static const char *const suffixes[] = {"", "-wal", "-shm"};
    store_close(store);
    store = NULL;
    for (size_t i = 0; i < 3 && path[0] != '\0'; i++) {
        char name[320];
        snprintf(name, sizeof name, "%s%s", path, suffixes[i]);
        unlink(name);
    }
}

static void fresh_store(void)
{
    const char *folder = getenv("TMPDIR");
    struct fault f;
    if (path[0] == '\0') {
        atexit(remove_store);
        log_init("fuzz", LOG_ERROR);
    }
    remove_store();
    snprintf(path, sizeof path, "%s/fuzz-ingest-%d.db", folder == NULL ? "." : folder,
             (int)getpid());
    check(store_open(path, true, &store, &f) == ERR_OK);
    store_share_pepper(store, &pepper);
    next_seq = 1;
}

static uint64_t rows(void)
{
    uint64_t count;
    struct audit_store *audit = store_audit(store);
    check(audit->ops->count(audit->state, &count) == ERR_OK);
    return count;
}

static struct str any[] = {STR("*")};
static const struct globs all = {any, 1};

static void post(struct str body, bool ndjson)
{
    static struct buf out;
    if (out.bytes == NULL) buf_init(&out, 1 << 12, 16 << 20);
    const struct ingest_post p = {.body = body, .ndjson = ndjson, .tenants = &all, .now_ms = 1};
    struct ingest_result result;
    struct fault f;
    uint64_t before = rows();
    buf_clear(&out);
    enum err err = ingest_post(store, &p, &out, &result, &f);
    if (err != ERR_OK) {
        check(rows() == before);
        return;
    }
    uint64_t taken = result.accepted + result.duplicates;
    check(ingest_post(store, &p, &out, &result, &f) == ERR_OK);
    check(result.accepted == 0 && result.duplicates == taken);
}

static enum err send(struct ingest_batch *b, struct ingest_result *ret, struct fault *f)
{
    struct sha256 of_all = pepper_derive(&pepper, STR(RUN_KEY_LABEL));
    char hex[SHA256_HEX];
    sha256_write_hex(ingest_mac(&of_all, b), hex);
    b->mac = str_of(hex, sizeof hex);
    return ingest_stream(store, b, ret, f);
}

static void stream(struct str body)
{
    static const char started[] =
        "{\"event_id\":\"evt_start\",\"kind\":\"engine.started\",\"tenant_id\":\"t\","
        "\"timestamp\":\"2026-11-20T09:30:00.000Z\"}";
    struct ingest_batch b = {.node = STR("n"),
                             .journal = STR("0"),
                             .epoch = STR("1111111111111111"),
                             .tenants = &all,
                             .now_ms = 1};
    struct ingest_result result;
    struct fault f;
    if (next_seq == 1) {
        b.first_seq = 1;
        b.body = str_from(started);
        check(send(&b, &result, &f) == ERR_OK);
        next_seq = result.next_seq;
    }
    b.first_seq = next_seq;
    b.body = body;
    check(send(&b, &result, &f) == ERR_OK); /* no line stops a stream */
    check(result.next_seq - next_seq ==
          result.accepted + result.invalid + result.clashes + result.duplicates - result.displaced);
    uint64_t clashes = result.clashes;
    check(send(&b, &result, &f) == ERR_OK);
    check(result.accepted == 0 && result.clashes <= clashes);
    next_seq = result.next_seq;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static unsigned runs;
    if (runs++ % RUNS_PER_STORE == 0) fresh_store();
    if (size == 0) return 0;
    struct str body = str_of((const char *)bytes + 1, size - 1);
    if (bytes[0] % 3 == 0)
        stream(body);
    else
        post(body, bytes[0] % 3 == 1);
    return 0;
}

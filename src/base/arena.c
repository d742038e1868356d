#include "base/arena.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/check.h"
#include "base/reserve.h"

/* of x86-64, and of aarch64 with pages of 4 KiB */
static const size_t huge_page = (size_t)2 << 20;

struct arena_chunk {
    struct arena_chunk *next;
    size_t size;   /* of bytes[] */
    size_t mapped; /* bytes of the mapping; 0: the memory came from malloc() */
    _Alignas(16) char bytes[];
};

/* The chunk of an arena that has none. */
static _Alignas(16) char nothing[16];

static size_t huge_pages_up(size_t size) { return (size + huge_page - 1) / huge_page * huge_page; }

/* A mapping of whole huge pages: one page more than needed is mapped, and both ends are
 * unmapped. */
static struct arena_chunk *chunk_map(size_t size)
{
    size_t whole = huge_pages_up(sizeof(struct arena_chunk) + size);
    char *from =
        mmap(NULL, whole + huge_page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (from == MAP_FAILED) return NULL;
    size_t before = (size_t)(-(uintptr_t)from & (huge_page - 1));
    if (before > 0) munmap(from, before);
    munmap(from + before + whole, huge_page - before);
    madvise(from + before, whole, MADV_HUGEPAGE); /* if it fails, the pages are small */
    struct arena_chunk *chunk = (struct arena_chunk *)(void *)(from + before);
    chunk->mapped = whole;
    return chunk;
}

static void chunk_free(struct arena_chunk *chunk)
{
    if (chunk->mapped == 0)
        free(chunk);
    else
        munmap(chunk, chunk->mapped);
}

void arena_starve(struct arena *a) { a->overflow = a->starved = true; }

static struct arena_chunk *chunk_create(struct arena *a, size_t size)
{
    if (size > a->limit_bytes || a->taken_bytes > a->limit_bytes - size) return NULL;
    bool maps = a->prefers_huge && size >= huge_page;
    struct arena_chunk *chunk = maps ? chunk_map(size) : malloc(sizeof *chunk + size);
    if (chunk == NULL) {
        memory_was_missing();
        arena_starve(a);
        return NULL;
    }
    if (!maps) chunk->mapped = 0;
    chunk->next = NULL;
    chunk->size = size;
    a->taken_bytes += size;
    return chunk;
}

static void chunk_use(struct arena *a, struct arena_chunk *chunk)
{
    a->current = chunk;
    a->next = chunk->bytes;
    a->end = chunk->bytes + chunk->size;
}

void arena_init(struct arena *a, size_t first_bytes, size_t limit_bytes)
{
    check(first_bytes > 0 && first_bytes <= limit_bytes);
    *a = (struct arena){
        .next = nothing, .end = nothing, .first_bytes = first_bytes, .limit_bytes = limit_bytes};
    a->first = chunk_create(a, first_bytes);
    if (a->first != NULL) chunk_use(a, a->first);
}

void arena_prefer_huge(struct arena *a) { a->prefers_huge = true; }

static void chunks_free(struct arena_chunk *chunk)
{
    while (chunk != NULL) {
        struct arena_chunk *next = chunk->next;
        chunk_free(chunk);
        chunk = next;
    }
}

void arena_fini(struct arena *a)
{
    chunks_free(a->first);
    *a = (struct arena){0};
}

void arena_reset(struct arena *a)
{
    if (a->first == NULL) {
        bool prefers_huge = a->prefers_huge;
        arena_init(a, a->first_bytes, a->limit_bytes);
        a->prefers_huge = prefers_huge;
        return;
    }
    if (a->first->next != NULL) {
        chunks_free(a->first->next);
        a->first->next = NULL;
        a->taken_bytes = a->first->size;
    }
    chunk_use(a, a->first);
    a->overflow = a->starved = false;
}

struct arena arena_begin_aside(struct arena *a, size_t limit_bytes)
{
    struct arena before = *a;
    a->limit_bytes = a->taken_bytes + limit_bytes;
    a->overflow = a->first == NULL;
    return before;
}

void arena_end_aside(struct arena *a, const struct arena *before)
{
    if (before->current != NULL) {
        chunks_free(before->current->next);
        before->current->next = NULL;
    }
    bool starved = a->starved;
    *a = *before;
    a->starved |= starved;
}

bool arena_keep_aside(struct arena *a, const struct arena *before)
{
    size_t left = before->limit_bytes - before->taken_bytes + (size_t)(before->end - before->next),
           room = (size_t)(a->end - a->next);
    if (a->overflow || before->overflow || room > left) {
        arena_end_aside(a, before);
        return false;
    }
    a->limit_bytes = a->taken_bytes + (left - room);
    a->overflow = false;
    return true;
}

static bool arena_grow(struct arena *a, size_t size)
{
    if (a->current == NULL) return false;
    size_t left = a->limit_bytes - a->taken_bytes;
    size_t wanted = a->current->size * 2;
    if (wanted < size + 16) wanted = size + 16;
    if (wanted > left) wanted = left;
    if (wanted < size + 16) return false;
    struct arena_chunk *chunk = chunk_create(a, wanted);
    if (chunk == NULL) return false;
    a->current->next = chunk;
    chunk_use(a, chunk);
    return true;
}

char *arena_bytes(struct arena *a, size_t size)
{
    if ((size_t)(a->end - a->next) < size) {
        if (a->overflow || size > a->limit_bytes || !arena_grow(a, size)) {
            a->overflow = true;
            return NULL;
        }
    }
    char *taken = a->next;
    a->next += size;
    return taken;
}

void arena_trim(struct arena *a, char *newest, size_t size, size_t used)
{
    check(newest + size == a->next && used <= size);
    a->next = newest + used;
}

void *arena_take(struct arena *a, size_t size)
{
    size_t pad = (size_t)(-(uintptr_t)a->next & 15u);
    if ((size_t)(a->end - a->next) >= pad && (size_t)(a->end - a->next) - pad >= size) {
        a->next += pad;
    } else if (a->overflow || size > a->limit_bytes || !arena_grow(a, size)) {
        a->overflow = true;
        return NULL;
    }
    void *taken = a->next; /* a new chunk begins aligned */
    a->next += size;
    return memset(taken, 0, size);
}

struct str arena_copy(struct arena *a, struct str s)
{
    if (str_is_absent(s)) return s;
    char *bytes = arena_bytes(a, s.size + 1);
    if (bytes == NULL) return (struct str){0};
    if (s.size > 0) memcpy(bytes, s.bytes, s.size);
    bytes[s.size] = '\0';
    return str_of(bytes, s.size);
}

struct str arena_printf(struct arena *a, const char *format, ...)
{
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    struct str result = {0};
    char *bytes = length < 0 ? NULL : arena_bytes(a, (size_t)length + 1);
    if (bytes != NULL) {
        vsnprintf(bytes, (size_t)length + 1, format, again);
        result = str_of(bytes, (size_t)length);
    }
    va_end(again);
    return result;
}

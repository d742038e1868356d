/* no_memory.c - preloaded into a program, lets it find no memory.
 *
 * NO_MEMORY_FILE names three words that a test may change while the program runs: how many of
 * 65,536 calls fail, from which size on, and, counted here, how many have failed. Which ones fail
 * is chosen by a counter, as good as by chance. Only calls from the program itself: how a library
 * takes it is the library's affair. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct wish {
    _Atomic uint32_t of_65536, from_bytes, failed;
};

static _Atomic(struct wish *) wish;
static uintptr_t program_from, program_to;
static _Atomic uint64_t calls;

static void *(*next_malloc)(size_t);
static void *(*next_calloc)(size_t, size_t);
static void *(*next_realloc)(void *, size_t);
static void (*next_free)(void *);
static void *(*next_aligned)(size_t, size_t);

/* What dlsym() itself wants before it has told us anything. */
static _Alignas(16) char early[64 << 10];
static size_t early_used;

static bool is_early(const void *p)
{
    return (uintptr_t)p >= (uintptr_t)early && (uintptr_t)p < (uintptr_t)early + sizeof early;
}

static void *early_take(size_t size)
{
    size_t at = early_used;
    early_used += (size + 31) / 16 * 16;
    return early_used <= sizeof early ? early + at : NULL;
}

static int note_program(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size;
    (void)context;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *h = &info->dlpi_phdr[i];
        if (h->p_type != PT_LOAD || !(h->p_flags & PF_X)) continue;
        program_from = info->dlpi_addr + h->p_vaddr;
        program_to = program_from + h->p_memsz;
    }
    return 1; /* the first is the program */
}

static void find(void)
{
    static bool finding;
    if (finding) return;
    finding = true;
    *(void **)&next_calloc = dlsym(RTLD_NEXT, "calloc");
    *(void **)&next_realloc = dlsym(RTLD_NEXT, "realloc");
    *(void **)&next_free = dlsym(RTLD_NEXT, "free");
    *(void **)&next_aligned = dlsym(RTLD_NEXT, "aligned_alloc");
    *(void **)&next_malloc = dlsym(RTLD_NEXT, "malloc");
}

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("NO_MEMORY_FILE");
    int file = path == NULL ? -1 : open(path, O_RDWR | O_CLOEXEC);
    if (file < 0) return;
    void *at = mmap(NULL, sizeof(struct wish), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    dl_iterate_phdr(note_program, NULL);
    if (at != MAP_FAILED) atomic_store(&wish, at);
}

static bool fails(size_t size, const void *caller)
{
    struct wish *w = atomic_load(&wish);
    uint32_t of = w == NULL ? 0 : atomic_load_explicit(&w->of_65536, memory_order_relaxed);
    if (of == 0 || size < atomic_load_explicit(&w->from_bytes, memory_order_relaxed)) return false;
    if ((uintptr_t)caller < program_from || (uintptr_t)caller >= program_to) return false;
    uint64_t x = (atomic_fetch_add(&calls, 1) + 1) * UINT64_C(0x9E3779B97F4A7C15);
    x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    if ((x >> 40 & 0xFFFF) >= of) return false;
    atomic_fetch_add(&w->failed, 1);
    errno = ENOMEM;
    return true;
}

void *malloc(size_t size)
{
    if (next_malloc == NULL) find();
    if (next_malloc == NULL) return early_take(size);
    return fails(size, __builtin_return_address(0)) ? NULL : next_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    if (next_malloc == NULL) find();
    if (next_malloc == NULL) return early_take(count * size);
    return fails(count * size, __builtin_return_address(0)) ? NULL : next_calloc(count, size);
}

void *realloc(void *before, size_t size)
{
    if (next_malloc == NULL) find();
    if (next_malloc == NULL || is_early(before)) {
        void *p = next_malloc == NULL ? early_take(size) : next_malloc(size);
        if (p != NULL && before != NULL) memcpy(p, before, size);
        return p;
    }
    return fails(size, __builtin_return_address(0)) ? NULL : next_realloc(before, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    if (next_malloc == NULL) find();
    return fails(size, __builtin_return_address(0)) ? NULL : next_aligned(alignment, size);
}

void free(void *p)
{
    if (!is_early(p) && next_free != NULL) next_free(p);
}

#include "cli/anchor_input.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "cli/evidence.h"
#include "evidence/checkpoint.h"
#include "evidence/note.h"

enum {
    ARENA_FIRST = 1 << 20,
    ARENA_MOST = 1 << 30,
    ANCHORS_READ_MAX = 1 << 22,
    LINE_ARENA_MOST = 64 << 20,
    FOLDER_DEPTH = 16,
    PATH_MOST = 4096,
};

void anchor_input_init(struct anchor_input *in)
{
    *in = (struct anchor_input){0};
    arena_init(&in->arena, ARENA_FIRST, ARENA_MOST);
}

void anchor_input_fini(struct anchor_input *in)
{
    arena_fini(&in->arena);
    free(in->list);
    *in = (struct anchor_input){0};
}

/* ---- one checkpoint ---- */

/* False: it is not a checkpoint of a stream. */
static bool read_note(struct str note, struct kept_anchor *ret)
{
    struct note n;
    struct checkpoint p;
    uint64_t base;
    if (note_read(note, &n, NULL) != ERR_OK || checkpoint_read(n.text, &p, NULL) != ERR_OK)
        return false;
    size_t slash = p.origin.size;
    while (slash > 0 && p.origin.bytes[slash - 1] != '/') slash--;
    if (slash == 0 || !str_to_u64(str_skip(p.origin, slash), &base) || p.size == 0) return false;
    if (p.size > INT64_MAX || base > INT64_MAX) return false;
    ret->stream = str_of(p.origin.bytes, slash - 1);
    ret->end = base + p.size - 1;
    return true;
}

static int no_memory(struct cli *c, const char *path)
{
    return cli_complain(c, USAGE, "%s: it has too many anchors for the memory: give a part of them",
                        path);
}

static int add(struct cli *c, struct anchor_input *in, const char *path, struct str note,
               struct str time)
{
    struct kept_anchor one = {0}, *list = in->list;
    if (str_is_absent(note) || !read_note(note, &one)) {
        in->unreadable++;
        return DONE;
    }
    if (in->count == in->room) {
        in->room = in->room == 0 ? 1024 : 2 * in->room;
        if (in->count >= ANCHORS_READ_MAX) return no_memory(c, path);
        list = realloc(in->list, in->room * sizeof *list);
        if (list == NULL) return no_memory(c, path);
        in->list = list;
    }
    one.note = arena_copy(&in->arena, note);
    one.stream = str_of(one.note.bytes, one.stream.size);
    one.time = str_is_absent(time) ? time : arena_copy(&in->arena, time);
    list[in->count++] = one;
    return in->arena.overflow ? no_memory(c, path) : DONE;
}

/* ---- files ---- */

static int add_line(struct cli *c, struct anchor_input *in, const char *path, struct str line,
                    struct arena *scratch)
{
    struct evidence_line l;
    struct json *root;
    arena_reset(scratch);
    if (line.size == 0) return DONE;
    if (evidence_read(line, scratch, &l)) /* other lines of evidence are no anchors */
        return str_equal(l.kind, STR("checkpoint"))
                   ? add(c, in, path, json_text(l.head, STR("note")), (struct str){0})
                   : DONE;
    arena_reset(scratch);
    if (json_read(line, NULL, scratch, &root, NULL) != ERR_OK || !json_is_object(root)) {
        in->unreadable++;
        return DONE;
    }
    return add(c, in, path, json_text(root, STR("note")), json_text(root, STR("anchored_at")));
}

static int read_file(struct cli *c, struct anchor_input *in, const char *path)
{
    FILE *file = fopen(path, "rbe");
    if (file == NULL) return cli_complain(c, USAGE, "%s: %s", path, strerror(errno));
    struct arena scratch;
    struct buf note;
    char *line = NULL;
    size_t room = 0;
    ssize_t size;
    int code = DONE;
    bool is_note = false;
    arena_init(&scratch, ARENA_FIRST, LINE_ARENA_MOST);
    buf_init(&note, 1024, EVIDENCE_LINE_MAX);
    for (bool first = true; code == DONE && (size = getline(&line, &room, file)) >= 0;
         first = false) {
        struct str text = str_of(line, (size_t)size);
        if (first) is_note = str_starts(text, STR("writ/"));
        if (is_note) {
            buf_put(&note, text);
            continue;
        }
        while (text.size > 0 &&
               (text.bytes[text.size - 1] == '\n' || text.bytes[text.size - 1] == '\r'))
            text.size--;
        code = text.size > EVIDENCE_LINE_MAX ? (in->unreadable++, DONE)
                                             : add_line(c, in, path, text, &scratch);
    }
    if (code == DONE && ferror(file))
        code = cli_complain(c, USAGE, "%s: %s", path, strerror(errno));
    if (code == DONE && is_note)
        code = add(c, in, path, note.overflow ? (struct str){0} : buf_view(&note), (struct str){0});
    free(line);
    buf_fini(&note);
    arena_fini(&scratch);
    fclose(file);
    return code;
}

static int read_path(struct cli *c, struct anchor_input *in, const char *path, unsigned depth)
{
    struct stat st;
    if (stat(path, &st) != 0) return cli_complain(c, USAGE, "%s: %s", path, strerror(errno));
    if (!S_ISDIR(st.st_mode)) return read_file(c, in, path);
    if (depth == FOLDER_DEPTH)
        return cli_complain(c, USAGE, "%s: it is more than %d folders deep", path, FOLDER_DEPTH);
    DIR *folder = opendir(path);
    if (folder == NULL) return cli_complain(c, USAGE, "%s: %s", path, strerror(errno));
    int code = DONE;
    for (struct dirent *e; code == DONE && (e = readdir(folder)) != NULL;) {
        char inner[PATH_MOST];
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        int size = snprintf(inner, sizeof inner, "%s/%s", path, e->d_name);
        code = size < 0 || (size_t)size >= sizeof inner
                   ? cli_complain(c, USAGE, "%s: a name in it is too long", path)
                   : read_path(c, in, inner, depth + 1);
    }
    closedir(folder);
    return code;
}

/* ---- the list ---- */

static int order(const void *a, const void *b)
{
    const struct kept_anchor *one = a, *other = b;
    int by_stream = str_compare(one->stream, other->stream);
    return by_stream != 0 ? by_stream : (one->end > other->end) - (one->end < other->end);
}

int anchor_input_read(struct cli *c, struct anchor_input *in, const char *path)
{
    int code = read_path(c, in, path, 0);
    if (code == DONE && in->count == 0)
        return cli_complain(c, USAGE,
                            "%s: no signed checkpoint is in it: it must be the file of an anchor, "
                            "an evidence file, or a folder with the objects of a bucket",
                            path);
    if (code == DONE) qsort(in->list, in->count, sizeof *in->list, order);
    return code;
}

struct kept_anchor *anchor_input_of(struct anchor_input *in, struct str stream, size_t *ret_count)
{
    size_t low = 0, high = in->count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (str_compare(in->list[mid].stream, stream) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    size_t end = low;
    while (end < in->count && str_equal(in->list[end].stream, stream)) end++;
    *ret_count = end - low;
    return in->list + low;
}

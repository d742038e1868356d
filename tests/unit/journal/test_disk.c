#include "journal/disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

struct place {
    char directory[64];
    struct disk *disk;
};

static int make_place(void **state)
{
    struct place *p = calloc(1, sizeof *p);
    const char template[] = "build/test_disk_XXXXXX";
    memcpy(p->directory, template, sizeof template);
    (void)mkdir("build", 0777); /* tests of a build elsewhere */
    if (mkdtemp(p->directory) == NULL) return -1;
    if (disk_real_create(p->directory, &p->disk) != ERR_OK) return -1;
    *state = p;
    return 0;
}

static int remove_place(void **state)
{
    struct place *p = *state;
    disk_real_destroy(p->disk);
    DIR *d = opendir(p->directory);
    for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL;)
        if (e->d_name[0] != '.') unlinkat(dirfd(d), e->d_name, 0);
    if (d != NULL) closedir(d);
    rmdir(p->directory);
    free(p);
    return 0;
}

static void bytes_come_back_and_the_end_is_told(void **state)
{
    struct disk *d = ((struct place *)*state)->disk;
    int file;
    assert_int_equal(d->open(d->state, "a", false, &file), ERR_NOT_FOUND);
    assert_int_equal(d->open(d->state, "a", true, &file), ERR_OK);
    assert_int_equal(d->fill(d->state, file, 1 << 20), ERR_OK);
    assert_int_equal(d->write(d->state, file, "hello", 5, 70000), ERR_OK);
    assert_int_equal(d->sync(d->state, file), ERR_OK);
    char bytes[8] = "xxxxxxx";
    assert_int_equal(d->read(d->state, file, bytes, 7, 69999), ERR_OK);
    assert_memory_equal(bytes, "\0hello\0", 7);
    uint64_t size;
    assert_int_equal(d->size(d->state, file, &size), ERR_OK);
    assert_int_equal(size, 1 << 20);
    assert_int_equal(d->read(d->state, file, bytes, 2, (1 << 20) - 1), ERR_END);
    d->close(d->state, file);
    assert_int_equal(d->open(d->state, "a", true, &file), ERR_EXISTS);
}

static void a_filled_file_has_all_its_blocks(void **state)
{
    struct place *p = *state;
    int file;
    assert_int_equal(p->disk->open(p->disk->state, "a", true, &file), ERR_OK);
    assert_int_equal(p->disk->fill(p->disk->state, file, (1 << 20) + 4096), ERR_OK);
    p->disk->close(p->disk->state, file);
    char path[128];
    snprintf(path, sizeof path, "%s/a", p->directory);
    struct stat about;
    assert_int_equal(stat(path, &about), 0);
    assert_true(about.st_blocks * 512 >= (1 << 20) + 4096);
    assert_int_equal(about.st_mode & 0777, 0600);
}

/* What stands before the system's pwrite: a file system that takes no direct writes, or only some. */
static struct direct {
    uint64_t asked, taken, cached; /* calls */
    uint64_t refuse_after;
    int refuse_with; /* 0: nothing */
    bool shortens;
} direct;

ssize_t pwrite(int file, const void *from, size_t size, off_t offset);
ssize_t pwrite(int file, const void *from, size_t size, off_t offset)
{
    if ((fcntl(file, F_GETFL) & O_DIRECT) == 0) {
        direct.cached++;
    } else if (direct.asked++ >= direct.refuse_after && direct.refuse_with != 0) {
        errno = direct.refuse_with;
        return -1;
    } else {
        direct.taken++;
        if (direct.shortens && size > 4096) size -= 512;
    }
    return syscall(SYS_pwrite64, file, from, size, offset);
}

static enum err fill_one(struct disk *d, uint64_t size)
{
    int file;
    char *bytes = malloc(size), *zeros = calloc(1, size);
    assert_true(bytes != NULL && zeros != NULL);
    memset(bytes, 'x', size);
    assert_int_equal(d->open(d->state, "a", true, &file), ERR_OK);
    enum err err = d->fill(d->state, file, size);
    uint64_t is;
    if (err == ERR_OK) {
        assert_int_equal(d->size(d->state, file, &is), ERR_OK);
        assert_int_equal(is, size);
        assert_int_equal(d->read(d->state, file, bytes, size, 0), ERR_OK);
        assert_memory_equal(bytes, zeros, size);
        assert_int_equal(fcntl(file, F_GETFL) & O_DIRECT, 0);
        assert_int_equal(d->write(d->state, file, "odd", 3, 777), ERR_OK);
    }
    free(bytes);
    free(zeros);
    d->close(d->state, file);
    assert_int_equal(d->remove(d->state, "a"), ERR_OK);
    return err;
}

static bool takes_direct_writes(struct place *p)
{
    static _Alignas(4096) char block[4096];
    direct = (struct direct){0};
    char path[128];
    snprintf(path, sizeof path, "%s/probe", p->directory);
    int file = open(path, O_WRONLY | O_CREAT | O_DIRECT, 0600);
    bool takes = file >= 0 && pwrite(file, block, sizeof block, 0) == sizeof block;
    if (file >= 0) close(file);
    return takes;
}

static void a_file_is_filled_around_the_page_cache(void **state)
{
    struct place *p = *state;
    if (!takes_direct_writes(p)) skip();
    direct = (struct direct){0};
    assert_int_equal(fill_one(p->disk, (5 << 20) + 4096), ERR_OK);
    assert_int_equal(direct.taken, 6);
    direct = (struct direct){0}; /* what is not whole blocks goes through it */
    assert_int_equal(fill_one(p->disk, (1 << 20) + 4096 + 100), ERR_OK);
    assert_int_equal(direct.taken, 2);
    assert_int_equal(direct.cached, 2);
    direct = (struct direct){.shortens = true};
    assert_int_equal(fill_one(p->disk, 3 << 20), ERR_OK);
}

static void a_file_system_that_takes_no_direct_writes_gets_others(void **state)
{
    struct disk *d = ((struct place *)*state)->disk;
    static const int refusals[] = {EINVAL, EOPNOTSUPP, ENOMEM};
    for (unsigned i = 0; i < 3; i++)
        for (uint64_t after = 0; after < 3; after++) {
            direct = (struct direct){.refuse_with = refusals[i], .refuse_after = after};
            assert_int_equal(fill_one(d, 3 << 20), ERR_OK);
            assert_true(direct.cached >= 3 - direct.taken);
        }
}

static void an_error_while_filling_is_told_and_not_tried_again(void **state)
{
    struct place *p = *state;
    if (!takes_direct_writes(p)) skip();
    static const struct {
        int error;
        enum err err;
    } all[] = {{ENOSPC, ERR_NO_SPACE}, {EDQUOT, ERR_NO_SPACE}, {EIO, ERR_IO}};
    for (unsigned i = 0; i < 3; i++) {
        direct = (struct direct){.refuse_with = all[i].error, .refuse_after = 1};
        assert_int_equal(fill_one(p->disk, 3 << 20), all[i].err);
        assert_int_equal(direct.asked, 2);
        assert_int_equal(direct.cached, 0);
    }
}

/* What stands before the system's openat: a directory that is closed. */
static int refuse_making_with;

int openat(int directory, const char *name, int flags, ...);
int openat(int directory, const char *name, int flags, ...)
{
    if ((flags & O_CREAT) != 0 && refuse_making_with != 0) {
        errno = refuse_making_with;
        return -1;
    }
    return (int)syscall(SYS_openat, directory, name, flags, 0600);
}

/* Only what was written can be lost: whoever wants one more file waits until there may be one. */
static void where_nothing_may_be_made_there_is_no_room(void **state)
{
    struct disk *d = ((struct place *)*state)->disk;
    static const struct {
        int error;
        enum err err;
    } all[] = {{EACCES, ERR_NOT_PERMITTED},  {EPERM, ERR_NOT_PERMITTED},
               {EROFS, ERR_NOT_PERMITTED},   {ENOSPC, ERR_NO_SPACE},
               {EMFILE, ERR_NO_DESCRIPTORS}, {EIO, ERR_IO}};
    int file;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        refuse_making_with = all[i].error;
        assert_int_equal(d->open(d->state, "a", true, &file), all[i].err);
    }
    refuse_making_with = 0;
    assert_int_equal(d->open(d->state, "a", true, &file), ERR_OK);
    d->close(d->state, file);
}

static void note(void *context, const char *name)
{
    char *to = context;
    memcpy(to + strlen(to), name, strlen(name) + 1);
}

static void names_are_listed_renamed_and_removed(void **state)
{
    struct disk *d = ((struct place *)*state)->disk;
    int file;
    assert_int_equal(d->lock(d->state), ERR_OK);
    assert_int_equal(d->open(d->state, "a", true, &file), ERR_OK);
    d->close(d->state, file);
    assert_int_equal(d->rename(d->state, "a", "b"), ERR_OK);
    assert_int_equal(d->sync_directory(d->state), ERR_OK);
    char names[256] = "";
    assert_int_equal(d->list(d->state, note, names), ERR_OK);
    assert_string_equal(names, "b"); /* the lock is not one of them */
    assert_int_equal(d->remove(d->state, "b"), ERR_OK);
    assert_int_equal(d->remove(d->state, "b"), ERR_NOT_FOUND);
}

static void only_one_process_holds_the_lock(void **state)
{
    struct place *p = *state;
    assert_int_equal(p->disk->lock(p->disk->state), ERR_OK);
    struct disk *second;
    assert_int_equal(disk_real_create(p->directory, &second), ERR_OK);
    assert_int_equal(second->lock(second->state), ERR_EXISTS);
    disk_real_destroy(p->disk);
    assert_int_equal(second->lock(second->state), ERR_OK);
    p->disk = second;
}

static void a_new_directory_is_for_its_owner_alone(void **state)
{
    struct place *p = *state;
    char path[128];
    snprintf(path, sizeof path, "%s/sub", p->directory);
    struct disk *sub;
    assert_int_equal(disk_real_create(path, &sub), ERR_OK);
    struct stat about;
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(about.st_mode & 0777, 0700);
    disk_real_destroy(sub);
    rmdir(path);
    assert_int_equal(disk_real_create("build/no/such/place", &sub), ERR_NOT_FOUND);
}

static void the_room_on_the_disk_is_told(void **state)
{
    struct disk *d = ((struct place *)*state)->disk;
    uint64_t free_bytes, total_bytes;
    assert_int_equal(d->free_bytes(d->state, &free_bytes, &total_bytes), ERR_OK);
    assert_true(free_bytes > 0 && total_bytes >= free_bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(bytes_come_back_and_the_end_is_told, make_place,
                                        remove_place),
        cmocka_unit_test_setup_teardown(a_filled_file_has_all_its_blocks, make_place, remove_place),
        cmocka_unit_test_setup_teardown(a_file_is_filled_around_the_page_cache, make_place,
                                        remove_place),
        cmocka_unit_test_setup_teardown(a_file_system_that_takes_no_direct_writes_gets_others,
                                        make_place, remove_place),
        cmocka_unit_test_setup_teardown(an_error_while_filling_is_told_and_not_tried_again,
                                        make_place, remove_place),
        cmocka_unit_test_setup_teardown(where_nothing_may_be_made_there_is_no_room, make_place,
                                        remove_place),
        cmocka_unit_test_setup_teardown(names_are_listed_renamed_and_removed, make_place,
                                        remove_place),
        cmocka_unit_test_setup_teardown(only_one_process_holds_the_lock, make_place, remove_place),
        cmocka_unit_test_setup_teardown(a_new_directory_is_for_its_owner_alone, make_place,
                                        remove_place),
        cmocka_unit_test_setup_teardown(the_room_on_the_disk_is_told, make_place, remove_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

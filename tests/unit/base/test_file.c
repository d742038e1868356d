/* Small files, read and written whole. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

static char folder[] = "/tmp/writ-file-XXXXXX";
static char path[sizeof folder + 8];

static int make_folder(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL) return -1;
    snprintf(path, sizeof path, "%s/file", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder);
}

static void assert_holds(struct str wanted)
{
    char bytes[64];
    size_t size;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_true(file_read(fd, bytes, sizeof bytes, &size));
    close(fd);
    assert_true(str_equal(str_of(bytes, size), wanted));
}

static void a_new_file_holds_its_bytes_and_is_closed_to_others(void **state)
{
    (void)state;
    struct stat about;
    assert_true(file_make(path, STR("secret\n")));
    assert_true(folder_sync(folder));
    assert_holds(STR("secret\n"));
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(about.st_mode & 0777, 0600);
    unlink(path);
}

static void a_file_that_is_there_is_left_as_it_is(void **state)
{
    (void)state;
    assert_true(file_make(path, STR("old")));
    assert_false(file_make(path, STR("new")));
    assert_int_equal(errno, EEXIST);
    assert_holds(STR("old"));
    unlink(path);
}

static void a_long_file_is_read_up_to_the_capacity(void **state)
{
    (void)state;
    char bytes[4];
    size_t size;
    assert_true(file_make(path, STR("abcdef")));
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(file_read(fd, bytes, sizeof bytes, &size) &&
                str_equal(str_of(bytes, size), STR("abcd")));
    assert_true(file_read(fd, bytes, sizeof bytes, &size) &&
                str_equal(str_of(bytes, size), STR("ef")));
    assert_true(file_read(fd, bytes, sizeof bytes, &size) && size == 0);
    close(fd);
    unlink(path);
}

static void what_cannot_be_done_is_said_with_errno(void **state)
{
    (void)state;
    char bytes[4];
    size_t size;
    int fd = open(folder, O_RDONLY | O_CLOEXEC);
    assert_false(file_read(fd, bytes, sizeof bytes, &size));
    assert_int_equal(errno, EISDIR);
    close(fd);
    fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
    assert_false(file_write(fd, STR("x")));
    assert_int_equal(errno, ENOSPC);
    close(fd);
    assert_false(folder_sync(path));
    assert_int_equal(errno, ENOENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_file_holds_its_bytes_and_is_closed_to_others),
        cmocka_unit_test(a_file_that_is_there_is_left_as_it_is),
        cmocka_unit_test(a_long_file_is_read_up_to_the_capacity),
        cmocka_unit_test(what_cannot_be_done_is_said_with_errno),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

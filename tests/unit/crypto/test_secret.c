/* Secrets in files: read whole or not at all, and never told. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "crypto/secret.h"

enum { CAPACITY = 16 };

struct file {
    char path[32], to[CAPACITY];
    size_t size;
    struct fault fault;
};

static enum err read_of(struct file *f, const char *bytes, size_t size)
{
    snprintf(f->path, sizeof f->path, "/tmp/writ-secret-XXXXXX");
    int fd = mkstemp(f->path);
    assert_true(fd >= 0 && write(fd, bytes, size) == (ssize_t)size);
    close(fd);
    memset(f->to, '?', sizeof f->to);
    f->fault = (struct fault){0};
    enum err err = secret_read("the.option", f->path, f->to, sizeof f->to, &f->size, &f->fault);
    unlink(f->path);
    return err;
}

static void a_secret_is_a_line_with_or_without_its_end(void **state)
{
    (void)state;
    static const char *const written[] = {"s3cret word", "s3cret word\n", "s3cret word\r\n"};
    for (size_t i = 0; i < sizeof written / sizeof *written; i++) {
        struct file f;
        assert_int_equal(read_of(&f, written[i], strlen(written[i])), ERR_OK);
        assert_int_equal(f.size, 11);
        assert_string_equal(f.to, "s3cret word");
    }
    struct file most;
    assert_int_equal(read_of(&most, "fourteen bytes\n", 15), ERR_OK);
    assert_string_equal(most.to, "fourteen bytes");
}

static void what_is_none_is_refused_by_its_file_and_leaves_nothing(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t size;
    } wrong[] = {{"", 0},
                 {"\n\n", 2},
                 {"s3cret\0word\n", 12},
                 {"s3cret of 16 bts", 16},
                 {"s3cret of fiftn", 15}, /* as long with the end of its line as there is room */
                 {"s3cret\nword\n", 12},
                 {"s3cret\rword\n", 12},
                 {"s3cret that is longer than there is room\n", 41}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct file f;
        char nothing[CAPACITY] = {0};
        assert_int_equal(read_of(&f, wrong[i].bytes, wrong[i].size), ERR_BAD_VALUE);
        assert_memory_equal(f.to, nothing, sizeof nothing);
        assert_non_null(strstr(f.fault.text, "the.option: /tmp/writ-secret-"));
        assert_null(strstr(f.fault.text, "s3cret"));
    }
}

static void a_file_that_cannot_be_read_is_told_with_the_reason(void **state)
{
    (void)state;
    char to[CAPACITY];
    size_t size;
    struct fault f = {0};
    assert_int_equal(secret_read("the.option", "/nowhere/at/all", to, sizeof to, &size, &f),
                     ERR_NOT_FOUND);
    assert_non_null(strstr(f.text, "/nowhere/at/all cannot be opened: No such file"));
    assert_int_equal(secret_read("the.option", "/tmp", to, sizeof to, &size, &f), ERR_NOT_FOUND);
    assert_non_null(strstr(f.text, "/tmp cannot be read: Is a directory"));
}

static enum err read_with(mode_t mode, uid_t owner, struct fault *f)
{
    char path[] = "/tmp/writ-secret-XXXXXX", to[CAPACITY] = {0};
    size_t size;
    int fd = mkstemp(path);
    assert_true(fd >= 0 && write(fd, "s3cret\n", 7) == 7 && fchmod(fd, mode) == 0 &&
                fchown(fd, owner, (gid_t)-1) == 0);
    close(fd);
    enum err err = secret_read("the.option", path, to, sizeof to, &size, f);
    unlink(path);
    assert_int_equal(err == ERR_OK, strcmp(to, "s3cret") == 0);
    return err;
}

static void a_file_of_our_own_that_is_open_to_others_is_refused(void **state)
{
    (void)state;
    static const mode_t open_ones[] = {0640, 0604, 0620, 0602, 0666},
                        closed_ones[] = {0600, 0400, 0700};
    for (size_t i = 0; i < sizeof open_ones / sizeof *open_ones; i++) {
        struct fault f = {0};
        assert_int_equal(read_with(open_ones[i], geteuid(), &f), ERR_BAD_VALUE);
        char mode[16];
        snprintf(mode, sizeof mode, "(mode %03o)", (unsigned)open_ones[i]);
        assert_non_null(strstr(f.text, mode));
        assert_non_null(strstr(f.text, "the.option: /tmp/writ-secret-"));
        assert_non_null(strstr(f.text, "chmod 600"));
    }
    for (size_t i = 0; i < sizeof closed_ones / sizeof *closed_ones; i++)
        assert_int_equal(read_with(closed_ones[i], geteuid(), NULL), ERR_OK);
}

/* As a container's secrets are: another user's, and readable. Who is not root cannot give a file
 * away, and reads one of root's. */
static void what_another_user_hands_in_is_taken_as_it_is(void **state)
{
    (void)state;
    if (geteuid() == 0) {
        assert_int_equal(read_with(0444, 12345, NULL), ERR_OK);
        assert_int_equal(read_with(0640, 12345, NULL), ERR_OK);
        return;
    }
    char to[CAPACITY];
    size_t size;
    assert_int_equal(
        secret_read("the.option", "/proc/sys/kernel/ostype", to, sizeof to, &size, NULL), ERR_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_secret_is_a_line_with_or_without_its_end),
        cmocka_unit_test(what_is_none_is_refused_by_its_file_and_leaves_nothing),
        cmocka_unit_test(a_file_that_cannot_be_read_is_told_with_the_reason),
        cmocka_unit_test(a_file_of_our_own_that_is_open_to_others_is_refused),
        cmocka_unit_test(what_another_user_hands_in_is_taken_as_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

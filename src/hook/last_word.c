#include "hook/last_word.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/check.h"
#include "hook/answer.h"

enum {
    EXIT_DENIED = 2,
    REASON_MAX = 1200,
    OUT_MAX = 4096, /* one write() of so many bytes into a pipe is whole (PIPE_BUF) */
    STACK_BYTES = 64 << 10,
    DEADLINE_LEAST_MS = 1
};

struct word {
    char out[OUT_MAX], why[REASON_MAX + 16];
    size_t out_size, why_size;
};

static struct word words[2];
static _Atomic(struct word *) current = &words[0];
static atomic_flag answered = ATOMIC_FLAG_INIT;

/* ---- in a signal handler, too ---- */

/* False: not all of it was written. */
static bool write_all(int fd, const char *bytes, size_t size)
{
    while (size > 0) {
        ssize_t n = write(fd, bytes, size);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        bytes += n;
        size -= (size_t)n;
    }
    return true;
}

static _Noreturn void deny(void)
{
    const struct word *w = atomic_load(&current);
    /* What cannot be written is not needed: status 2 denies, and the guard adds a reason. */
    (void)write_all(STDERR_FILENO, w->why, w->why_size);
    (void)write_all(STDOUT_FILENO, w->out, w->out_size);
    _exit(EXIT_DENIED);
}

static bool is_crash(int number)
{
    return number == SIGSEGV || number == SIGBUS || number == SIGILL || number == SIGFPE ||
           number == SIGABRT || number == SIGSYS;
}

static void on_signal(int number)
{
    if (!atomic_flag_test_and_set(&answered)) deny();
    if (is_crash(number)) _exit(EXIT_DENIED);
    /* an answer is being written: it is finished */
}

/* ---- outside ---- */

void last_word_begin(void)
{
    static const int caught[] = {SIGHUP,  SIGINT,  SIGQUIT, SIGILL,    SIGABRT, SIGFPE,
                                 SIGSEGV, SIGBUS,  SIGSYS,  SIGTERM,   SIGALRM, SIGXCPU,
                                 SIGXFSZ, SIGUSR1, SIGUSR2, SIGVTALRM, SIGPROF};
    static char stack[STACK_BYTES]; /* a crash may be that of the stack */
    const stack_t aside = {.ss_sp = stack, .ss_size = sizeof stack};
    sigset_t none;
    last_word_prepare(NULL, STR("The hook ended before it had a decision."));
    (void)sigaltstack(&aside, NULL);
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK | SA_RESTART};
    sigfillset(&action.sa_mask);
    for (size_t i = 0; i < sizeof caught / sizeof caught[0]; i++)
        check(sigaction(caught[i], &action, NULL) == 0);
    signal(SIGPIPE, SIG_IGN); /* a write that fails is seen where it fails */
    sigemptyset(&none);       /* the parent may have blocked some */
    check(sigprocmask(SIG_SETMASK, &none, NULL) == 0);
}

/* One line of well-formed UTF-8. */
static struct str plain_line(struct str text, char to[REASON_MAX])
{
    size_t ignored;
    bool is_utf8 = str_is_utf8(text, &ignored);
    struct str kept = is_utf8                  ? str_cut(text, REASON_MAX)
                      : text.size > REASON_MAX ? str_of(text.bytes, REASON_MAX)
                                               : text;
    for (size_t i = 0; i < kept.size; i++) {
        unsigned char c = (unsigned char)kept.bytes[i];
        to[i] = c < ' ' || c == 0x7F ? ' ' : !is_utf8 && c > 0x7F ? '?' : (char)c;
    }
    return str_of(to, kept.size);
}

void last_word_prepare(const struct hook_agent *agent, struct str reason)
{
    char line[REASON_MAX];
    struct str text = plain_line(reason, line);
    struct word *w = atomic_load(&current) == &words[0] ? &words[1] : &words[0];
    struct buf why = buf_over(w->why, sizeof w->why), out = buf_over(w->out, sizeof w->out);
    buf_put_literal(&why, "writ: ");
    buf_put(&why, text);
    buf_put_byte(&why, '\n');
    if (agent != NULL) answer_put_deny(&out, agent, text);
    check(!why.overflow && !out.overflow);
    w->why_size = why.size;
    w->out_size = out.size;
    atomic_store(&current, w);
}

void last_word_deadline(uint64_t ms)
{
    if (ms < DEADLINE_LEAST_MS) ms = DEADLINE_LEAST_MS;
    const struct itimerval t = {
        .it_value = {.tv_sec = (time_t)(ms / 1000), .tv_usec = (suseconds_t)(ms % 1000 * 1000)}};
    check(setitimer(ITIMER_REAL, &t, NULL) == 0);
}

/* A signal has begun to answer: its handler ends the process. */
static void begin_answer(void)
{
    while (atomic_flag_test_and_set(&answered)) pause();
}

void last_word_deny(void)
{
    begin_answer();
    deny();
}

void last_word_allow(struct str json)
{
    begin_answer();
    if (write_all(STDOUT_FILENO, json.bytes, json.size)) _exit(0);
    static const char why[] = "writ: the answer could not be written: the call is denied\n";
    (void)write_all(STDERR_FILENO, why, sizeof why - 1);
    _exit(EXIT_DENIED);
}

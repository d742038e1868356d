#include "outbound/outbound.h"

#include <curl/curl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "cel/cel.h"
#include "crypto/crypto.h"

enum trouble { TROUBLE_NONE, TROUBLE_PRIVATE, TROUBLE_HEAD, TROUBLE_LONG };

struct transfer {
    CURL *easy; /* NULL: the place is free */
    bool has_ended;
    CURLcode code;
    char *body;
    size_t size, at; /* at: of a mail, what was read */
    struct curl_slist *headers, *receivers;
    char *answer; /* kept until the place is used again */
    size_t answer_bytes, answer_max, head_bytes;
    bool allow_private, is_mail;
    enum trouble trouble;
};

struct outbound {
    CURLM *multi;
    char *ca_file;
    size_t places;
    struct transfer transfers[];
};

struct outbound *outbound_create(size_t places, const char *ca_file)
{
    struct outbound *s = calloc(1, sizeof *s + places * sizeof *s->transfers);
    if (s == NULL) return NULL;
    s->places = places;
    s->ca_file = strdup(ca_file);
    s->multi = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK ? curl_multi_init() : NULL;
    if (s->multi == NULL || s->ca_file == NULL) {
        outbound_destroy(s);
        return NULL;
    }
    return s;
}

static void forget_answer(struct transfer *t)
{
    if (t->answer == NULL) return;
    memory_wipe(t->answer, t->answer_max);
    free(t->answer);
    t->answer = NULL;
}

/* All but the answer. */
static void fini(struct outbound *s, struct transfer *t)
{
    char *answer = t->answer;
    size_t answer_max = t->answer_max;

    if (t->easy != NULL) {
        curl_multi_remove_handle(s->multi, t->easy);
        curl_easy_cleanup(t->easy);
    }
    curl_slist_free_all(t->headers);
    curl_slist_free_all(t->receivers);
    if (t->body != NULL) memory_wipe(t->body, t->size);
    free(t->body);
    *t = (struct transfer){.answer = answer, .answer_max = answer_max};
}

void outbound_destroy(struct outbound *s)
{
    if (s == NULL) return;
    for (size_t i = 0; i < s->places; i++) {
        fini(s, &s->transfers[i]);
        forget_answer(&s->transfers[i]);
    }
    if (s->multi != NULL) curl_multi_cleanup(s->multi);
    free(s->ca_file);
    free(s);
}

/* ---- what libcurl calls ---- */

static bool is_public(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET) {
        struct sockaddr_in four;
        memcpy(&four, address, sizeof four);
        return cel_address_is_public((const uint8_t *)&four.sin_addr, 4);
    }
    if (address->sa_family != AF_INET6) return false;
    struct sockaddr_in6 six;
    memcpy(&six, address, sizeof six);
    return cel_address_is_public(six.sin6_addr.s6_addr, 16);
}

static curl_socket_t open_socket(void *transfer, curlsocktype purpose, struct curl_sockaddr *a)
{
    struct transfer *t = transfer;
    if (purpose != CURLSOCKTYPE_IPCXN) return CURL_SOCKET_BAD;
    if (!t->allow_private && !is_public(&a->addr)) {
        t->trouble = TROUBLE_PRIVATE;
        return CURL_SOCKET_BAD;
    }
    t->trouble = TROUBLE_NONE; /* an earlier address of the name may have been private */
    return socket(a->family, a->socktype | SOCK_CLOEXEC, a->protocol);
}

/* Reading less than there is ends the transfer. */
static size_t take_answer(char *bytes, size_t one, size_t size, void *transfer)
{
    struct transfer *t = transfer;
    size_t more = one * size;
    if (t->answer == NULL) {
        t->answer_bytes += more;
        return t->answer_bytes > OUTBOUND_UNWANTED_BYTES ? 0 : more;
    }
    if (more > t->answer_max - t->answer_bytes) {
        t->trouble = TROUBLE_LONG;
        return 0;
    }
    memcpy(t->answer + t->answer_bytes, bytes, more);
    t->answer_bytes += more;
    return more;
}

static size_t take_head(char *bytes, size_t one, size_t size, void *transfer)
{
    struct transfer *t = transfer;
    (void)bytes;
    t->head_bytes += one * size;
    if (t->head_bytes <= OUTBOUND_HEAD_BYTES) return one * size;
    t->trouble = TROUBLE_HEAD;
    return 0;
}

static size_t give_mail(char *to, size_t one, size_t size, void *transfer)
{
    struct transfer *t = transfer;
    size_t room = one * size, left = t->size - t->at;
    size_t count = left < room ? left : room;
    memcpy(to, t->body + t->at, count);
    t->at += count;
    return count;
}

/* ---- the start of a transfer ---- */

static bool set_mail(struct transfer *t, const struct outbound_request *r)
{
    struct str list = str_from(r->to), one;
    while (str_split(&list, ',', &one)) {
        char address[512];
        while (one.size > 0 && one.bytes[0] == ' ') one = str_skip(one, 1);
        snprintf(address, sizeof address, "%.*s", STR_FORMAT(one));
        struct curl_slist *more = curl_slist_append(t->receivers, address);
        if (more == NULL) return false;
        t->receivers = more;
    }
    long ssl = r->allow_plaintext ? CURLUSESSL_TRY : CURLUSESSL_ALL;
    bool set = curl_easy_setopt(t->easy, CURLOPT_MAIL_FROM, r->from) == CURLE_OK &&
               curl_easy_setopt(t->easy, CURLOPT_MAIL_RCPT, t->receivers) == CURLE_OK &&
               curl_easy_setopt(t->easy, CURLOPT_USE_SSL, ssl) == CURLE_OK &&
               curl_easy_setopt(t->easy, CURLOPT_UPLOAD, 1L) == CURLE_OK &&
               curl_easy_setopt(t->easy, CURLOPT_READFUNCTION, give_mail) == CURLE_OK &&
               curl_easy_setopt(t->easy, CURLOPT_READDATA, t) == CURLE_OK;
    return set;
}

static bool set_http(struct transfer *t, const struct outbound_request *r)
{
    for (size_t i = 0; i < r->header_count; i++) {
        struct curl_slist *more = curl_slist_append(t->headers, r->headers[i]);
        if (more == NULL) return false;
        t->headers = more;
    }
    bool set =
        r->method == OUTBOUND_GET ||
        (curl_easy_setopt(t->easy, CURLOPT_POST, 1L) == CURLE_OK &&
         curl_easy_setopt(t->easy, CURLOPT_POSTFIELDS, t->body) == CURLE_OK &&
         curl_easy_setopt(t->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)t->size) == CURLE_OK);
    if (set && r->method == OUTBOUND_PUT)
        set = curl_easy_setopt(t->easy, CURLOPT_CUSTOMREQUEST, "PUT") == CURLE_OK;
    if (set)
        set = r->signature == NULL
                  ? curl_easy_setopt(t->easy, CURLOPT_HTTPAUTH, (long)CURLAUTH_BASIC) == CURLE_OK
                  : curl_easy_setopt(t->easy, CURLOPT_AWS_SIGV4, r->signature) == CURLE_OK;
    return set && curl_easy_setopt(t->easy, CURLOPT_HTTPHEADER, t->headers) == CURLE_OK &&
           curl_easy_setopt(t->easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1) ==
               CURLE_OK &&
           curl_easy_setopt(t->easy, CURLOPT_USERAGENT, "writ/" WRIT_VERSION) == CURLE_OK;
}

static bool set_common(struct outbound *s, struct transfer *t, const struct outbound_request *r)
{
    CURL *e = t->easy;
    bool set =
        curl_easy_setopt(e, CURLOPT_URL, r->url) == CURLE_OK &&
        curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, t->is_mail ? "smtp,smtps" : "http,https") ==
            CURLE_OK &&
        curl_easy_setopt(e, CURLOPT_FOLLOWLOCATION, 0L) == CURLE_OK &&
        curl_easy_setopt(e, CURLOPT_PROXY, "") == CURLE_OK &&
        curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L) == CURLE_OK &&
        curl_easy_setopt(e, CURLOPT_TIMEOUT_MS, (long)OUTBOUND_MS) == CURLE_OK &&
        curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, (long)OUTBOUND_CONNECT_MS) == CURLE_OK &&
        curl_easy_setopt(e, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2) == CURLE_OK &&
        curl_easy_setopt(e, CURLOPT_FORBID_REUSE, 1L) == CURLE_OK &&
        curl_easy_setopt(e, CURLOPT_FRESH_CONNECT, 1L) == CURLE_OK &&
        curl_easy_setopt(e, CURLOPT_OPENSOCKETFUNCTION, open_socket) == CURLE_OK &&
        curl_easy_setopt(e, CURLOPT_OPENSOCKETDATA, t) == CURLE_OK &&
        curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, take_answer) == CURLE_OK &&
        curl_easy_setopt(e, CURLOPT_WRITEDATA, t) == CURLE_OK &&
        curl_easy_setopt(e, CURLOPT_HEADERFUNCTION, take_head) == CURLE_OK &&
        curl_easy_setopt(e, CURLOPT_HEADERDATA, t) == CURLE_OK &&
        curl_easy_setopt(e, CURLOPT_PRIVATE, t) == CURLE_OK;
    if (set && r->user != NULL && *r->user != '\0')
        set = curl_easy_setopt(e, CURLOPT_USERNAME, r->user) == CURLE_OK &&
              curl_easy_setopt(e, CURLOPT_PASSWORD, r->password) == CURLE_OK;
    if (!set || *s->ca_file == '\0') return set;
    return curl_easy_setopt(e, CURLOPT_CAINFO, s->ca_file) == CURLE_OK &&
           curl_easy_setopt(e, CURLOPT_CAPATH, NULL) == CURLE_OK;
}

bool outbound_begin(struct outbound *s, size_t place, const struct outbound_request *r)
{
    struct transfer *t = &s->transfers[place];
    check(place < s->places && t->easy == NULL);
    forget_answer(t);
    t->is_mail = r->method == OUTBOUND_MAIL;
    t->allow_private = r->allow_private;
    t->answer_max = r->answer_max;
    if (r->answer_max > 0) t->answer = malloc(r->answer_max);
    t->easy = curl_easy_init();
    t->body = malloc(r->body.size + 1);
    if (t->body != NULL && r->body.size > 0) memcpy(t->body, r->body.bytes, r->body.size);
    t->size = r->body.size;
    bool has_memory =
        t->easy != NULL && t->body != NULL && (t->answer != NULL || t->answer_max == 0);
    if (!has_memory || !set_common(s, t, r) || !(t->is_mail ? set_mail(t, r) : set_http(t, r)) ||
        curl_multi_add_handle(s->multi, t->easy) != CURLM_OK) {
        fini(s, t);
        return false;
    }
    return true;
}

/* ---- its end ---- */

bool outbound_is_busy(const struct outbound *s, size_t place)
{
    return s->transfers[place].easy != NULL;
}

static bool note_ends(struct outbound *s)
{
    CURLMsg *m;
    int left;
    bool any = false;
    while ((m = curl_multi_info_read(s->multi, &left)) != NULL) {
        struct transfer *t = NULL;
        if (m->msg != CURLMSG_DONE ||
            curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &t) != CURLE_OK || t == NULL)
            continue;
        t->has_ended = any = true;
        t->code = m->data.result;
    }
    return any;
}

void outbound_work(struct outbound *s, int timeout_ms)
{
    int running = 0;
    (void)curl_multi_perform(s->multi, &running);
    if (note_ends(s)) return;
    (void)curl_multi_poll(s->multi, NULL, 0, timeout_ms, NULL);
    (void)curl_multi_perform(s->multi, &running);
    (void)note_ends(s);
}

void outbound_wake(struct outbound *s) { (void)curl_multi_wakeup(s->multi); }

static void put_error(char *to, const char *text) { snprintf(to, OUTBOUND_ERROR_TEXT, "%s", text); }

static void settle_http(struct transfer *t, struct outbound_result *ret)
{
    long status = 0;
    curl_off_t after = 0;
    (void)curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
    (void)curl_easy_getinfo(t->easy, CURLINFO_RETRY_AFTER, &after);
    if (after > 0) ret->retry_after_s = (uint64_t)after;
    ret->status = status;
    if (t->answer != NULL) ret->answer = str_of(t->answer, t->answer_bytes);
    /* The rest of a long answer that is not wanted: its status has come. */
    bool has_answered =
        t->code == CURLE_OK || (t->code == CURLE_WRITE_ERROR && t->trouble == TROUBLE_NONE);
    ret->is_delivered = has_answered && status >= 200 && status < 300;
    if (has_answered && !ret->is_delivered)
        snprintf(ret->error, sizeof ret->error, "it answered HTTP %ld%s", status,
                 status >= 300 && status < 400 ? ", and redirects are not followed" : "");
}

bool outbound_take(struct outbound *s, size_t place, struct outbound_result *ret)
{
    struct transfer *t = &s->transfers[place];
    if (t->easy == NULL || !t->has_ended) return false;
    *ret = (struct outbound_result){.is_delivered = t->is_mail && t->code == CURLE_OK};
    if (!t->is_mail) settle_http(t, ret);
    if (!ret->is_delivered && t->trouble == TROUBLE_PRIVATE)
        put_error(ret->error, "its address is not public, and allow_private is not set");
    else if (!ret->is_delivered && t->trouble == TROUBLE_HEAD)
        put_error(ret->error, "the head of its answer is larger than 16 KiB");
    else if (!ret->is_delivered && t->trouble == TROUBLE_LONG)
        snprintf(ret->error, sizeof ret->error, "its answer is larger than %zu KiB",
                 t->answer_max >> 10);
    else if (!ret->is_delivered && ret->error[0] == '\0')
        put_error(ret->error, curl_easy_strerror(t->code));
    fini(s, t);
    return true;
}

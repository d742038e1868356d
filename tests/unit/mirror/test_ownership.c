/* Whose Redis it is: what is refused at a start, who has to stop, and what is adopted. */
#include "server.h"

/* ---- who owns it ---- */

static void another_nodes_redis_is_refused_with_a_sentence(void **state)
{
    (void)state;
    struct server *r = redis();
    struct scene *first = scene(), *second = scene();
    struct fault f;
    begin(first, r, "node-a");
    scene_play(first, 3);
    await_mirror(first);
    assert_int_equal(try_begin(second, r, "node-b", &f), ERR_EXISTS);
    assert_non_null(strstr(f.text, "node-a"));
    assert_non_null(strstr(f.text, "--adopt node-a"));
    assert_int_equal(first->lost, 0);
}

static void a_new_directory_under_the_old_name_is_refused(void **state)
{
    (void)state;
    struct server *r = redis();
    struct scene *first = scene(), *second = scene();
    struct fault f;
    begin(first, r, "node-a");
    scene_play(first, 3);
    scene_end(first);
    assert_int_equal(try_begin(second, r, "node-a", &f), ERR_EXISTS);
    assert_non_null(strstr(f.text, "--adopt node-a"));
    scene_play(second, 20); /* and not either when it has a history of its own */
    assert_int_equal(try_begin(second, r, "node-a", &f), ERR_EXISTS);
}

static void a_disk_that_went_back_in_time_is_refused(void **state)
{
    (void)state;
    struct server *r = redis();
    struct scene *s = scene();
    struct fault f;
    bool reached;
    begin(s, r, "node-a");
    scene_play(s, 10);
    await_mirror(s);
    uint64_t seq = s->seq;
    scene_close(s);
    scene_open(s);
    s->seq = seq - 5; /* as if the journal ended there */
    assert_int_equal(check_redis(s, r, "node-a", "", &reached, &f), ERR_BAD_VALUE);
    assert_non_null(strstr(f.text, "went back in time"));
    s->seq = seq;
}

/* The number alone tells nothing: this journal has grown past it, with other records. */
static void a_disk_that_went_back_in_time_is_refused_also_when_it_has_grown_since(void **state)
{
    (void)state;
    struct server *r = redis();
    struct scene *s = scene();
    struct fault f;
    bool reached;
    begin(s, r, "node-a");
    scene_play(s, 10);
    await_mirror(s);
    uint64_t seq = s->seq;
    scene_close(s);
    scene_open(s);
    size_t newest = s->past.epoch_count - 1;
    assert_int_equal(
        lineage_end(&s->past, str_of(s->past.epochs[newest], JOURNAL_EPOCH_TEXT), UINT64_MAX), seq);
    s->past.ends[newest] = seq - 5; /* as if the records behind it were of another boot */
    scene_play(s, 10);
    assert_int_equal(check_redis(s, r, "node-a", "", &reached, &f), ERR_BAD_VALUE);
    assert_non_null(strstr(f.text, "went back in time"));
    /* where Redis was away when that was asked */
    assert_int_equal(start_state_follower(s, r, "node-a", true, &f), ERR_EXISTS);
    assert_non_null(strstr(f.text, "went back in time"));
    s->past.ends[newest] = seq;
    assert_int_equal(check_redis(s, r, "node-a", "", &reached, &f), ERR_OK);
}

static void the_one_that_was_taken_over_stops(void **state)
{
    (void)state;
    struct server *r = redis();
    struct scene *s = scene();
    begin(s, r, "node-a");
    scene_play(s, 3);
    await_mirror(s);
    for (unsigned i = 0; i < LIMIT_SLOTS; i++) {
        char key[REDIS_KEY_TEXT];
        ask(r, "SET", redis_key_put(i, SLOT_OWNER, key).bytes, "node-b:0123456789abcdef");
    }
    scene_play(s, 3);
    uint64_t begun_ns = 0;
    while (s->lost == 0) nap(&begun_ns);
    struct state_follower_status status;
    state_follower_status(s->keep, &status);
    assert_true(status.redis_lost);
    assert_non_null(strstr(status.text, "node-b"));
}

static void an_idle_engine_notices_too_that_it_was_taken_over(void **state)
{
    (void)state;
    struct server *r = redis();
    struct scene *s = scene();
    begin(s, r, "node-a");
    scene_play(s, 1);
    await_mirror(s);
    for (unsigned i = 0; i < LIMIT_SLOTS; i++) {
        char key[REDIS_KEY_TEXT];
        ask(r, "SET", redis_key_put(i, SLOT_OWNER, key).bytes, "node-b:0123456789abcdef");
    }
    uint64_t begun_ns = 0;
    while (s->lost == 0) nap(&begun_ns);
}

/* ---- adopting ---- */

static void an_adopted_state_comes_back_closed_and_lives_on(void **state)
{
    (void)state;
    struct server *r = redis();
    struct scene *first = scene(), *second = scene();
    struct fault f;
    bool reached;
    begin(first, r, "node-a");
    scene_play(first, 30);
    await_mirror(first);
    uint64_t tokens, reviews;
    shard_close_open(first->truth, second->now_ms, &tokens, &reviews); /* what has to come out */
    assert_true(tokens > 0 && reviews > 0);
    struct image expected = image_of(first->truth);
    scene_end(first);

    enum err err = check_redis(second, r, "node-b", "node-a", &reached, &f);
    if (err != ERR_OK) print_error("%s\n", f.text);
    assert_int_equal(err, ERR_OK);
    assert_true(reached);
    assert_non_null(strstr(second->past.adopted, "node-a:"));
    struct image got = image_of(second->truth);
    assert_int_equal(got.count, expected.count);
    for (size_t i = 0; i < got.count; i++)
        assert_true(str_equal(got.entries[i], expected.entries[i]));
    image_fini(&got);
    image_fini(&expected);

    second->rounds = second->next = 1000; /* others than the first one's */

    /* It is a snapshot first, and a crash right behind it is no loss: the owner is claimed
     * later. */
    assert_int_equal(snapshot_make(second->snapshots, &second->past, &second->truth, 1, &f),
                     ERR_OK);
    scene_close(second);
    scene_open(second);
    begin(second, r, "node-b");
    scene_play(second, 10);
    await_mirror(second);
    assert_redis_is_the_truth(second, r);
    assert_int_equal(second->lost, 0);
    char key[REDIS_KEY_TEXT];
    assert_non_null(
        strstr(ask(r, "GET", redis_key_put(7, SLOT_OWNER, key).bytes, NULL).text, "node-b:"));
}

/* Between claiming and writing anew, the old node's positions must mean nothing to the next
 * start. */
static void a_crash_right_after_claiming_an_adopted_redis_is_no_loss(void **state)
{
    (void)state;
    struct server *r = redis();
    struct scene *first = scene(), *second = scene();
    struct fault f;
    bool reached;
    begin(first, r, "node-a");
    scene_play(first, 30);
    await_mirror(first);
    scene_end(first);
    assert_int_equal(check_redis(second, r, "node-b", "node-a", &reached, &f), ERR_OK);
    assert_int_equal(snapshot_make(second->snapshots, &second->past, &second->truth, 1, &f),
                     ERR_OK);
    scene_record(second, scene_event, (struct str){0});
    scene_sync(second);
    claim_and_die(second, r, "node-b");
    scene_close(second);
    scene_open(second);
    second->rounds = second->next = 1000;
    begin(second, r, "node-b");
    scene_play(second, 2);
    await_mirror(second);
    assert_redis_is_the_truth(second, r);
}

static void what_cannot_be_adopted_is_refused(void **state)
{
    (void)state;
    struct server *r = redis();
    struct scene *first = scene(), *second = scene();
    struct fault f;
    bool reached;
    /* it is empty */
    assert_int_equal(check_redis(second, r, "node-b", "node-a", &reached, &f), ERR_BAD_VALUE);
    begin(first, r, "node-a");
    scene_play(first, 3);
    scene_end(first);
    /* another's */
    assert_int_equal(check_redis(second, r, "node-b", "node-c", &reached, &f), ERR_EXISTS);
    /* under its own name */
    assert_int_equal(check_redis(second, r, "node-a", "node-a", &reached, &f), ERR_BAD_VALUE);
    assert_non_null(strstr(f.text, "no second history under one name"));
    scene_play(second, 1);
    /* not a new directory */
    assert_int_equal(check_redis(second, r, "node-b", "node-a", &reached, &f), ERR_BAD_VALUE);
    server_stop(r, SIGKILL);
    struct scene *third = scene();
    assert_int_equal(check_redis(third, r, "node-d", "node-a", &reached, &f),
                     ERR_STORE_UNAVAILABLE);
}

/* What an owner found empty or old is not whole before it wrote it anew: its positions say so. */
static void an_image_that_is_not_finished_is_not_adopted(void **state)
{
    (void)state;
    struct server *r = redis();
    struct scene *first = scene(), *second = scene();
    struct fault f;
    bool reached;
    begin(first, r, "node-a");
    scene_suspend(first, "mallory", true);
    scene_suspend(first, "trudy", true);
    scene_suspend(first, "eve", true);
    scene_sync(first);
    await_mirror(first);
    scene_close(first);
    ask(r, "FLUSHALL", NULL, NULL);
    scene_open(first);
    claim_and_die(first, r, "node-a");
    assert_int_equal(check_redis(second, r, "node-b", "node-a", &reached, &f), ERR_BAD_VALUE);
    assert_non_null(strstr(f.text, "slot 0 "));
    assert_non_null(strstr(f.text, "node-a"));
    assert_int_equal(second->past.adopted[0], '\0');

    begin(first, r, "node-a"); /* as the sentence says: its owner finishes it */
    await_mirror(first);
    scene_close(first);
    assert_int_equal(check_redis(second, r, "node-b", "node-a", &reached, &f), ERR_OK);
    struct image got = image_of(second->truth);
    assert_int_equal(got.count, 3);
    image_fini(&got);
}

/* Redis may drop one key of a slot, and a suspension with it. */
static void an_image_that_lost_a_key_is_not_adopted(void **state)
{
    (void)state;
    static const struct {
        const char *name, *says;
    } cases[] = {{"actors", " holds 0 fields, and 1 were written"},
                 {"fields", " holds 1 fields, and an unknown number were written"}};
    struct server *r = redis();
    struct fault f;
    bool reached;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct scene *first = scene(), *second = scene();
        char key[REDIS_KEY_TEXT];
        ask(r, "FLUSHALL", NULL, NULL);
        begin(first, r, "node-a");
        scene_suspend(first, "mallory", true);
        scene_sync(first);
        await_mirror(first);
        scene_close(first);
        key_beside(r, SHARD_ACTORS, cases[i].name, key);
        assert_int_equal(ask(r, "DEL", key, NULL).integer, 1);
        assert_int_equal(check_redis(second, r, "node-b", "node-a", &reached, &f), ERR_BAD_VALUE);
        if (strstr(f.text, cases[i].says) == NULL) fail_msg("%s", f.text);
        assert_int_equal(second->past.adopted[0], '\0');
        scene_open(first);
        begin(first, r, "node-a"); /* its own engine finds it, too */
        await_mirror(first);
        scene_close(first);
        assert_int_equal(check_redis(second, r, "node-b", "node-a", &reached, &f), ERR_OK);
        scene_end(first);
        scene_end(second);
    }
}

/* node-b claimed what it adopted of node-a, and its disk was lost then too. */
static void who_was_lost_while_it_adopted_is_adopted_with_whom_it_adopted(void **state)
{
    (void)state;
    struct server *r = redis();
    struct scene *first = scene(), *second = scene(), *third = scene();
    struct fault f;
    bool reached;
    begin(first, r, "node-a");
    scene_play(first, 20);
    await_mirror(first);
    scene_close(first);
    assert_int_equal(check_redis(second, r, "node-b", "node-a", &reached, &f), ERR_OK);
    assert_int_equal(snapshot_make(second->snapshots, &second->past, &second->truth, 1, &f),
                     ERR_OK);
    char owner[REDIS_KEY_TEXT], position[REDIS_KEY_TEXT];
    struct answer_text owned = ask(r, "GET", redis_key_put(7, SLOT_OWNER, owner).bytes, NULL);
    struct answer_text placed =
        ask(r, "GET", redis_key_put(7, SLOT_POSITION, position).bytes, NULL);
    claim_and_die(second, r, "node-b");
    claim_and_die(second, r, "node-b"); /* a claim of what it owns already takes nothing away */
    ask(r, "SET", owner, owned.text);   /* as if it had not got so far */
    ask(r, "SET", position, placed.text);
    struct image expected = image_of(second->truth);
    third->now_ms = second->now_ms; /* what is closed says when */

    assert_int_equal(check_redis(third, r, "node-c", "node-b", &reached, &f), ERR_EXISTS);
    assert_int_equal(check_redis(third, r, "node-c", "node-a,node-b", &reached, &f), ERR_OK);
    struct image got = image_of(third->truth);
    assert_int_equal(got.count, expected.count);
    for (size_t i = 0; i < got.count; i++)
        assert_true(str_equal(got.entries[i], expected.entries[i]));
    image_fini(&got);
    image_fini(&expected);
}

static void what_was_written_after_the_adoption_ends_it(bool with_a_restart)
{
    struct server *r = redis();
    struct scene *first = scene(), *second = scene();
    struct fault f = {.err = ERR_OK};
    bool reached;
    begin(first, r, "node-a");
    scene_play(first, 5);
    await_mirror(first);
    assert_int_equal(check_redis(second, r, "node-b", "node-a", &reached, &f), ERR_OK);
    assert_int_equal(snapshot_make(second->snapshots, &second->past, &second->truth, 1, &f),
                     ERR_OK);
    scene_suspend(first, "mallory", true);
    scene_sync(first);
    await_mirror(first);
    if (with_a_restart) {
        scene_close(second);
        scene_open(second);
    }
    assert_int_equal(start_state_follower(second, r, "node-b", true, &f), ERR_EXISTS);
    assert_non_null(strstr(f.text, "node-a"));
    assert_non_null(strstr(f.text, "after it was adopted"));
    scene_play(first, 1);
    await_mirror(first);
    assert_redis_is_the_truth(first, r);
    assert_int_equal(first->lost, 0);
}

static void what_the_old_engine_wrote_after_it_was_adopted_is_not_erased(void **state)
{
    (void)state;
    what_was_written_after_the_adoption_ends_it(false);
}

static void nor_is_it_after_another_start(void **state)
{
    (void)state;
    what_was_written_after_the_adoption_ends_it(true);
}

struct writing {
    struct server *server;
    _Atomic uint64_t writes;
    _Atomic bool ended;
};

static void wrote(void *context, const struct redis_value *v)
{
    (void)context;
    assert_non_null(v);
}

static void *write_on(void *context)
{
    struct writing *w = context;
    struct redis_link_options o = {
        .loop = loop_create(), .user = "", .password_file = "", .ca_file = "", .timeout_ms = 5000};
    struct fault f;
    assert_int_equal(redis_address_read(str_from(w->server->url), &o.address, &f), ERR_OK);
    struct redis_link *l = redis_link_create(&o);
    assert_int_equal(redis_link_open(l, &f), ERR_OK);
    while (!atomic_load(&w->ended)) {
        struct str words[2] = {STR("INCR"), STR("writ:{slot-512}:position")};
        redis_link_send(l, words, 2, wrote, NULL);
        assert_true(redis_link_await(l, 0));
        atomic_fetch_add(&w->writes, 1);
    }
    redis_link_destroy(l);
    loop_destroy(o.loop);
    return NULL;
}

static void an_engine_that_writes_while_it_is_adopted_is_noticed(void **state)
{
    (void)state;
    struct server *r = redis();
    struct scene *first = scene(), *second = scene();
    struct writing w = {.server = r};
    struct fault f;
    pthread_t thread;
    bool reached;
    begin(first, r, "node-a");
    scene_play(first, 5);
    await_mirror(first);
    scene_close(first);
    assert_int_equal(pthread_create(&thread, NULL, write_on, &w), 0);
    uint64_t begun_ns = 0;
    while (w.writes == 0) nap(&begun_ns);
    enum err err = check_redis(second, r, "node-b", "node-a", &reached, &f);
    atomic_store(&w.ended, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(err, ERR_EXISTS);
    assert_non_null(strstr(f.text, "slot 512 "));
    assert_int_equal(second->past.adopted[0], '\0');
    struct image taken = image_of(second->truth);
    assert_int_equal(taken.count, 0);
    image_fini(&taken);
}

static void a_claim_of_what_moved_changes_nothing(void **state)
{
    (void)state;
    struct server *r = redis();
    assert_string_equal(run_script(r, SCRIPT_CLAIM, "", "", "n:1", "keep", NULL).word, "OK");
    ask(r, "SET", "writ:{slot-5}:position", "11");
    struct script_answer moved = run_script(r, SCRIPT_CLAIM, "n:1", "10", "n:2", "forget", NULL);
    assert_string_equal(moved.word, "POSITION");
    assert_string_equal(moved.there, "11");
    assert_string_equal(ask(r, "GET", "writ:{slot-5}:owner", NULL).text, "n:1");
    assert_string_equal(ask(r, "GET", "writ:{slot-5}:position", NULL).text, "11");
    assert_string_equal(run_script(r, SCRIPT_CLAIM, "n:1", "11", "n:2", "adopted", NULL).word,
                        "OK");
    assert_string_equal(ask(r, "GET", "writ:{slot-5}:position", NULL).text, "adopted");
    assert_string_equal(run_script(r, SCRIPT_CLAIM, "n:2", "adopted", "n:3", "forget", NULL).word,
                        "OK");
    assert_true(ask(r, "GET", "writ:{slot-5}:position", NULL).is_nothing);
}

/* Between the check and the claim: the start tells it, or serving would never hear of it. */
static void a_redis_that_changed_hands_before_the_claim_ends_the_start(void **state)
{
    (void)state;
    struct server *r = redis();
    struct scene *s = scene();
    struct fault f;
    bool reached;
    static const struct {
        const char *key, *value, *says;
    } cases[] = {
        {"writ:{slot-9}:owner", "node-b:0123456789abcdef", "belongs to engine node-b now"},
        {"writ:{slot-9}:owner", "node-a:0123456789abcdef", "another engine has the same name"},
        {"writ:{slot-9}:owner", "somebody", "\"somebody\", which is no engine's name"},
        {"writ:{slot-9}:position", "somewhere", "slot 9 of this Redis holds what no engine wrote"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ask(r, "FLUSHALL", NULL, NULL);
        assert_int_equal(check_redis(s, r, "node-a", "", &reached, &f), ERR_OK);
        assert_true(reached);
        ask(r, "SET", cases[i].key, cases[i].value);
        assert_int_equal(start_state_follower(s, r, "node-a", reached, &f), ERR_EXISTS);
        if (strstr(f.text, cases[i].says) == NULL) fail_msg("%s", f.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(another_nodes_redis_is_refused_with_a_sentence),
        TEST(a_new_directory_under_the_old_name_is_refused),
        TEST(a_disk_that_went_back_in_time_is_refused),
        TEST(a_disk_that_went_back_in_time_is_refused_also_when_it_has_grown_since),
        TEST(the_one_that_was_taken_over_stops),
        TEST(an_idle_engine_notices_too_that_it_was_taken_over),
        TEST(an_adopted_state_comes_back_closed_and_lives_on),
        TEST(a_crash_right_after_claiming_an_adopted_redis_is_no_loss),
        TEST(what_cannot_be_adopted_is_refused),
        TEST(an_image_that_is_not_finished_is_not_adopted),
        TEST(an_image_that_lost_a_key_is_not_adopted),
        TEST(who_was_lost_while_it_adopted_is_adopted_with_whom_it_adopted),
        TEST(what_the_old_engine_wrote_after_it_was_adopted_is_not_erased),
        TEST(nor_is_it_after_another_start),
        TEST(an_engine_that_writes_while_it_is_adopted_is_noticed),
        TEST(a_claim_of_what_moved_changes_nothing),
        TEST(a_redis_that_changed_hands_before_the_claim_ends_the_start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

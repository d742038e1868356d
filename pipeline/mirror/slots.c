#include "pipeline/mirror/slots.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"

/* ---- names ---- */

struct str redis_key_put(unsigned slot, unsigned name, char to[REDIS_KEY_TEXT])
{
    static const char *const names[SLOT_NAMES] = {
        "owner",  "position",    "fields",       "tokens",        "reviews",    "counters",
        "actors", "next:tokens", "next:reviews", "next:counters", "next:actors"};
    check(name < SLOT_NAMES && slot < LIMIT_SLOTS);
    int size = snprintf(to, REDIS_KEY_TEXT, "writ:{slot-%u}:%s", slot, names[name]);
    return str_of(to, (size_t)size);
}

bool owner_read(struct str owner, struct str *ret_node, struct str *ret_epoch)
{
    size_t colon = str_find(owner, ':');
    if (colon == 0 || owner.size != colon + 1 + JOURNAL_EPOCH_TEXT || owner.size >= OWNER_TEXT)
        return false;
    *ret_node = str_of(owner.bytes, colon);
    *ret_epoch = str_skip(owner, colon + 1);
    return true;
}

bool list_has(const char *list, struct str word)
{
    struct str rest = str_from(list), part;
    while (str_split(&rest, ',', &part))
        if (str_equal(part, word)) return word.size > 0;
    return false;
}

/* ---- scripts ---- */

/* Every script answers {word, what is there}: OK, or OWNER, POSITION or FIELDS (how many the hashes
 * hold) where that is not what was expected, and then nothing was changed. Redis takes nothing back of a script that fails in its
 * middle. So a write whose first operation fails gives that error (nothing was done yet); one that
 * fails later takes the position away, which is what makes the rest believed, and answers {BROKEN,
 * error}. A sum that int64 cannot hold is no failure: it is cut, as the shard cuts it. */
static struct str script_text(enum script s)
{
    static const char *const texts[SCRIPTS] = {
        [SCRIPT_CLAIM] =
            "local o = redis.call('GET', KEYS[1]) or ''\n"
            "if o ~= ARGV[1] then return {'OWNER', o} end\n"
            "local p = redis.call('GET', KEYS[2]) or ''\n"
            "if p ~= ARGV[2] then return {'POSITION', p} end\n"
            "redis.call('SET', KEYS[1], ARGV[3])\n"
            "if ARGV[4] == 'forget' then redis.call('DEL', KEYS[2])\n"
            "elseif ARGV[4] == 'adopted' then redis.call('SET', KEYS[2], 'adopted') end\n"
            "return {'OK', ARGV[3]}\n",
        [SCRIPT_WRITE] =
            "local o = redis.call('GET', KEYS[1]) or ''\n"
            "if o ~= ARGV[1] then return {'OWNER', o} end\n"
            "local p = redis.call('GET', KEYS[2]) or ''\n"
            "if p ~= ARGV[2] then return {'POSITION', p} end\n"
            "local function failed(r) return type(r) == 'table' and r.err ~= nil end\n"
            "local function count()\n"
            "  local n = 0\n"
            "  for i = 3, 6 do\n"
            "    local r = redis.pcall('HLEN', KEYS[i])\n"
            "    if failed(r) then return r end\n"
            "    n = n + r\n"
            "  end\n"
            "  return string.format('%d', n)\n"
            "end\n"
            "local held = count()\n"
            "if failed(held) then return held end\n"
            "if redis.call('GET', KEYS[7]) ~= held then return {'FIELDS', held} end\n"
            "local function give_up(r, done)\n"
            "  if not done then return r end\n"
            "  redis.pcall('DEL', KEYS[2])\n"
            "  return {'BROKEN', r.err}\n"
            "end\n"
            "for i = 4, #ARGV, 4 do\n"
            "  local key, r = KEYS[tonumber(ARGV[i + 1])]\n"
            "  if ARGV[i] == 'S' then r = redis.pcall('HSET', key, ARGV[i + 2], ARGV[i + 3])\n"
            "  elseif ARGV[i] == 'D' then r = redis.pcall('HDEL', key, ARGV[i + 2])\n"
            "  else\n"
            "    r = redis.pcall('HINCRBY', key, ARGV[i + 2], ARGV[i + 3])\n"
            "    if failed(r) and string.find(r.err, 'overflow', 1, true) then\n"
            "      r = redis.pcall('HSET', key, ARGV[i + 2], '9223372036854775807')\n"
            "    end\n"
            "  end\n"
            "  if failed(r) then return give_up(r, i > 4) end\n"
            "end\n"
            "local r = redis.pcall('SET', KEYS[7], count())\n"
            "if not failed(r) then r = redis.pcall('SET', KEYS[2], ARGV[3]) end\n"
            "if failed(r) then return give_up(r, #ARGV > 3) end\n"
            "return {'OK', ARGV[3]}\n",
        [SCRIPT_STAGE] =
            "local o = redis.call('GET', KEYS[1]) or ''\n"
            "if o ~= ARGV[1] then return {'OWNER', o} end\n"
            "if ARGV[2] == 'first' then redis.call('UNLINK', KEYS[2], KEYS[3], KEYS[4], KEYS[5]) end\n"
            "for i = 3, #ARGV, 3 do redis.call('HSET', KEYS[tonumber(ARGV[i])], ARGV[i + 1], ARGV[i + 2]) end\n"
            "return {'OK', ''}\n",
        [SCRIPT_SWAP] =
            "local o = redis.call('GET', KEYS[1]) or ''\n"
            "if o ~= ARGV[1] then return {'OWNER', o} end\n"
            "local n = 0\n"
            "for i = 3, 6 do\n"
            "  redis.call('UNLINK', KEYS[i])\n"
            "  if redis.call('EXISTS', KEYS[i + 4]) == 1 then redis.call('RENAME', KEYS[i + 4], KEYS[i]) end\n"
            "  n = n + redis.call('HLEN', KEYS[i])\n"
            "end\n"
            "redis.call('SET', KEYS[11], string.format('%d', n))\n"
            "redis.call('SET', KEYS[2], ARGV[2])\n"
            "return {'OK', ARGV[2]}\n",
    };
    return str_from(texts[s]);
}

struct loading {
    struct scripts *scripts;
    enum script script;
};

static void script_loaded(void *context, const struct redis_value *v)
{
    struct loading *l = context;
    if (v == NULL || v->kind != REDIS_TEXT || v->text.size != SCRIPT_DIGEST_TEXT) {
        l->scripts->failed = true;
        return;
    }
    memcpy(l->scripts->digests[l->script], v->text.bytes, SCRIPT_DIGEST_TEXT);
    l->scripts->loaded++;
}

enum err scripts_load(struct redis_link *l, struct scripts *s, struct fault *f)
{
    struct loading loading[SCRIPTS];
    *s = (struct scripts){0};
    for (unsigned i = 0; i < SCRIPTS; i++) {
        struct str arguments[3] = {STR("SCRIPT"), STR("LOAD"), script_text((enum script)i)};
        loading[i] = (struct loading){.scripts = s, .script = (enum script)i};
        redis_link_send(l, arguments, 3, script_loaded, &loading[i]);
    }
    bool up = redis_link_await(l, 0);
    if (up && !s->failed) return ERR_OK;
    return fault_set(f, ERR_STORE_UNAVAILABLE, "", "Redis cannot be used: %s",
                     up ? "it does not take scripts (this user needs EVALSHA and SCRIPT LOAD)"
                        : redis_link_why(l));
}

void script_call_begin(struct script_call *c, enum script script, unsigned slot)
{
    static const struct {
        size_t count;
        unsigned names[SCRIPT_KEYS_MAX];
    } keys[SCRIPTS] = {
        [SCRIPT_CLAIM] = {2, {SLOT_OWNER, SLOT_POSITION}},
        [SCRIPT_WRITE] = {7,
                          {SLOT_OWNER, SLOT_POSITION, SLOT_HASH, SLOT_HASH + 1, SLOT_HASH + 2,
                           SLOT_HASH + 3, SLOT_FIELDS}},
        [SCRIPT_STAGE] = {5, {SLOT_OWNER, SLOT_NEXT, SLOT_NEXT + 1, SLOT_NEXT + 2, SLOT_NEXT + 3}},
        [SCRIPT_SWAP] = {11,
                         {SLOT_OWNER, SLOT_POSITION, SLOT_HASH, SLOT_HASH + 1, SLOT_HASH + 2,
                          SLOT_HASH + 3, SLOT_NEXT, SLOT_NEXT + 1, SLOT_NEXT + 2, SLOT_NEXT + 3,
                          SLOT_FIELDS}},
    };
    static const struct str counts[] = {
        [2] = {"2", 1}, [5] = {"5", 1}, [7] = {"7", 1}, [11] = {"11", 2}};
    c->script = script;
    c->slot = slot;
    c->keys = keys[script].count;
    c->count = 2; /* EVALSHA and the digest are put when it is sent */
    script_call_add(c, counts[c->keys]);
    for (size_t i = 0; i < c->keys; i++)
        script_call_add(c, redis_key_put(slot, keys[script].names[i], c->names[i]));
}

void script_call_add(struct script_call *c, struct str argument)
{
    check(c->count < SCRIPT_ARGUMENTS_MAX);
    c->arguments[c->count++] = argument;
}

void script_call_send(struct script_call *c, struct redis_link *l, const struct scripts *s,
                      bool by_text, void (*answered)(void *context, const struct redis_value *v),
                      void *context)
{
    c->arguments[0] = by_text ? STR("EVAL") : STR("EVALSHA");
    c->arguments[1] =
        by_text ? script_text(c->script) : str_of(s->digests[c->script], SCRIPT_DIGEST_TEXT);
    redis_link_send(l, c->arguments, c->count, answered, context);
}

/* ---- looking ---- */

struct looking {
    struct slot_seen *seen;
    bool failed;
    struct fault *fault;
};

struct look_at {
    struct looking *all;
    struct slot_seen *seen;
    enum redis_key_name name;
};

static void read_position(struct slot_seen *s, struct str text)
{
    memcpy(s->at, text.bytes, text.size);
    s->is_whole = str_equal(text, STR("adopted"));
    if (s->is_whole) return;
    s->has_position = str_to_u64(text, &s->position);
    s->strange = s->strange || !s->has_position;
}

static void read_fields(struct slot_seen *s, struct str text)
{
    s->has_fields = str_to_u64(text, &s->fields);
}

static void looked(void *context, const struct redis_value *v)
{
    struct look_at *at = context;
    struct slot_seen *s = at->seen;
    if (v == NULL || v->kind == REDIS_ERROR) {
        if (v != NULL && !at->all->failed)
            (void)fault_set(at->all->fault, ERR_STORE_UNAVAILABLE, "", "Redis cannot be used: %.*s",
                            STR_FORMAT(v->text));
        at->all->failed = true;
        return;
    }
    if (v->kind == REDIS_NOTHING) return;
    size_t size = at->name == SLOT_OWNER ? sizeof s->owner : sizeof s->at;
    if (v->kind != REDIS_TEXT || v->text.size >= size)
        s->strange = true;
    else if (at->name == SLOT_OWNER)
        memcpy(s->owner, v->text.bytes, v->text.size);
    else if (at->name == SLOT_POSITION)
        read_position(s, v->text);
    else
        read_fields(s, v->text);
}

enum err slots_look(struct redis_link *l, struct slot_seen seen[LIMIT_SLOTS], struct fault *f)
{
    static const enum redis_key_name names[] = {SLOT_OWNER, SLOT_POSITION, SLOT_FIELDS};
    enum { NAMES = sizeof names / sizeof *names };
    static _Thread_local struct look_at at[NAMES * LIMIT_SLOTS];
    struct looking all = {.seen = seen, .fault = f};
    memset(seen, 0, LIMIT_SLOTS * sizeof *seen);
    for (unsigned i = 0; i < NAMES * LIMIT_SLOTS; i++) {
        char name[REDIS_KEY_TEXT];
        struct str arguments[2] = {STR("GET"), redis_key_put(i / NAMES, names[i % NAMES], name)};
        at[i] = (struct look_at){.all = &all, .seen = &seen[i / NAMES], .name = names[i % NAMES]};
        redis_link_send(l, arguments, 2, looked, &at[i]);
    }
    bool up = redis_link_await(l, 0);
    if (up && !all.failed) return ERR_OK;
    return up ? ERR_STORE_UNAVAILABLE
              : fault_set(f, ERR_STORE_UNAVAILABLE, "", "Redis was lost: %s", redis_link_why(l));
}

struct counting {
    struct slot_sizes *all;
    unsigned slot;
};

static void counted(void *context, const struct redis_value *v)
{
    const struct counting *c = context;
    uint32_t *fields = &c->all->fields[c->slot];
    if (v != NULL && v->kind == REDIS_INTEGER && v->integer >= 0) {
        uint64_t sum = *fields + (uint64_t)v->integer;
        *fields = sum < NO_FIELDS ? (uint32_t)sum : NO_FIELDS;
        return;
    }
    if (v != NULL && v->kind == REDIS_ERROR && str_starts(v->text, STR("WRONGTYPE"))) {
        *fields = NO_FIELDS;
        return;
    }
    if (c->all->failed) return;
    c->all->failed = true;
    if (v != NULL)
        (void)fault_set(c->all->fault, ERR_STORE_UNAVAILABLE, "", "Redis cannot be used: %.*s",
                        STR_FORMAT(v->text));
}

enum err slots_count(struct redis_link *l, const bool wanted[LIMIT_SLOTS], struct slot_sizes *ret,
                     struct fault *f)
{
    static _Thread_local struct counting each[LIMIT_SLOTS];
    *ret = (struct slot_sizes){.fault = f};
    for (unsigned i = 0; i < LIMIT_SLOTS; i++) {
        each[i] = (struct counting){.all = ret, .slot = i};
        for (unsigned object = 0; wanted[i] && object < SHARD_MIRRORED; object++) {
            char name[REDIS_KEY_TEXT];
            struct str arguments[2] = {STR("HLEN"), redis_key_put(i, SLOT_HASH + object, name)};
            redis_link_send(l, arguments, 2, counted, &each[i]);
        }
    }
    bool up = redis_link_await(l, 0);
    if (up && !ret->failed) return ERR_OK;
    return up ? ERR_STORE_UNAVAILABLE
              : fault_set(f, ERR_STORE_UNAVAILABLE, "", "Redis was lost: %s", redis_link_why(l));
}

#include "evidence/note.h"

#include "base/check.h"
#include "crypto/base64.h"
#include "crypto/public_key.h"

enum {
    KEY_ID_BYTES = 4,
    TIME_BYTES = 8, /* of a witness, before its signature */
    SIGNED_BYTES = KEY_ID_BYTES + ED25519_SIGNATURE_BYTES,
    COSIGNED_BYTES = SIGNED_BYTES + TIME_BYTES,
    COSIGNED_DIGITS = (COSIGNED_BYTES + 2) / 3 * 4,
    TYPED_KEY_BYTES = 1 + ED25519_KEY_BYTES,
    TYPED_KEY_DIGITS = TYPED_KEY_BYTES / 3 * 4,
    KEY_ID_HEX = 2 * KEY_ID_BYTES,
};

/* an em dash and a space */
static const struct str line_start = {.bytes = "\xe2\x80\x94 ", .size = 4};

/* ---- characters ---- */

/* As the property White_Space of Unicode. All of them are encoded in one to three bytes. */
static size_t space_at(struct str s)
{
    static const char *const spaces[] = {"\xc2\x85",     "\xc2\xa0",     "\xe1\x9a\x80",
                                         "\xe2\x80\xa8", "\xe2\x80\xa9", "\xe2\x80\xaf",
                                         "\xe2\x81\x9f", "\xe3\x80\x80"};
    if (s.bytes[0] == ' ') return 1;
    for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++)
        if (str_starts(s, str_from(spaces[i]))) return strlen(spaces[i]);
    /* U+2000 to U+200A */
    bool is_quad = s.size >= 3 && memcmp(s.bytes, "\xe2\x80", 2) == 0 &&
                   (unsigned char)s.bytes[2] >= 0x80 && (unsigned char)s.bytes[2] <= 0x8a;
    return is_quad ? 3 : 0;
}

static bool is_control(char c) { return (unsigned char)c < 0x20; }

bool note_name_is_valid(struct str name)
{
    if (name.size == 0 || name.size > NOTE_NAME_MAX || !str_is_utf8(name, &(size_t){0}))
        return false;
    for (size_t i = 0; i < name.size; i++)
        if (is_control(name.bytes[i]) || name.bytes[i] == '+' || space_at(str_skip(name, i)) != 0)
            return false;
    return true;
}

static bool is_text(struct str s, size_t *ret_offset)
{
    if (!str_is_utf8(s, ret_offset)) return false;
    for (size_t i = 0; i < s.size; i++)
        if (is_control(s.bytes[i]) && s.bytes[i] != '\n') {
            *ret_offset = i;
            return false;
        }
    return true;
}

/* ---- reading ---- */

static uint32_t key_id_of(const uint8_t bytes[KEY_ID_BYTES])
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

/* Without its newline. */
static bool read_signature(struct str line, struct note_signature *ret)
{
    uint8_t bytes[NOTE_SIGNATURE_MAX / 4 * 3];
    size_t size;
    if (!str_starts(line, line_start)) return false;
    struct str rest = str_skip(line, line_start.size);
    if (!str_split(&rest, ' ', &ret->name) || str_is_absent(rest)) return false;
    if (!note_name_is_valid(ret->name) || rest.size > NOTE_SIGNATURE_MAX) return false;
    if (!base64_read(rest, bytes, &size) || size <= KEY_ID_BYTES) return false;
    ret->key_id = key_id_of(bytes);
    ret->digits = rest;
    return true;
}

/* Where the signatures begin, behind the last empty line; 0: there is none. */
static size_t find_signatures(struct str bytes)
{
    for (size_t at = bytes.size; at >= 2; at--)
        if (bytes.bytes[at - 1] == '\n' && bytes.bytes[at - 2] == '\n') return at;
    return 0;
}

enum err note_read(struct str bytes, struct note *ret, struct fault *f)
{
    size_t offset;
    *ret = (struct note){0};
    if (bytes.size > NOTE_BYTES_MAX)
        return fault_set(f, ERR_FULL, "", "a note has at most %d bytes, this one %zu",
                         NOTE_BYTES_MAX, bytes.size);
    if (!is_text(bytes, &offset))
        return fault_set(f, ERR_BAD_VALUE, "",
                         "a note is UTF-8 without control characters; byte %zu is not", offset);
    size_t start = find_signatures(bytes);
    if (start < 2 || bytes.bytes[bytes.size - 1] != '\n' || start == bytes.size)
        return fault_set(f, ERR_BAD_VALUE, "",
                         "a note is a text, an empty line, and lines of signatures");
    if (start == 2) /* the text would be an empty line, or nothing */
        return fault_set(f, ERR_BAD_VALUE, "", "the note has no text");
    ret->text = str_of(bytes.bytes, start - 1);
    struct str rest = str_of(bytes.bytes + start, bytes.size - start - 1), line;
    while (str_split(&rest, '\n', &line)) {
        if (ret->count == NOTE_SIGNATURES_MAX)
            return fault_set(f, ERR_FULL, "", "a note has at most %d signatures",
                             NOTE_SIGNATURES_MAX);
        if (!read_signature(line, &ret->signatures[ret->count++]))
            return fault_set(f, ERR_BAD_VALUE, "",
                             "line %zu of the signatures is not an em dash, a name and base64",
                             ret->count);
    }
    return ERR_OK;
}

/* ---- keys ---- */

static struct note_key key_of(struct str name, enum note_key_type type,
                              const uint8_t public_key[ED25519_KEY_BYTES])
{
    char text[NOTE_NAME_MAX + 2 + ED25519_KEY_BYTES];
    struct buf out = buf_over(text, sizeof text);
    check(note_name_is_valid(name));
    buf_put(&out, name);
    buf_put_byte(&out, '\n');
    buf_put_byte(&out, (char)type);
    buf_put(&out, str_of((const char *)public_key, ED25519_KEY_BYTES));
    struct sha256 digest = sha256_once(buf_view(&out));
    struct note_key k = {.name = name, .type = type, .id = key_id_of(digest.bytes)};
    memcpy(k.public_key, public_key, ED25519_KEY_BYTES);
    return k;
}

struct note_key note_key_of(struct str name, const uint8_t public_key[ED25519_KEY_BYTES])
{
    return key_of(name, NOTE_AUTHOR, public_key);
}

enum err note_key_read(struct str text, struct note_key *ret, struct fault *f)
{
    uint8_t bytes[TYPED_KEY_BYTES], id[KEY_ID_BYTES];
    size_t size;
    struct str rest = text, name, hex;
    bool is_read = str_split(&rest, '+', &name) && str_split(&rest, '+', &hex) &&
                   note_name_is_valid(name) && hex.size == KEY_ID_HEX &&
                   hex_read(hex.bytes, id, sizeof id) && rest.size == TYPED_KEY_DIGITS &&
                   base64_read(rest, bytes, &size) && size == TYPED_KEY_BYTES;
    if (!is_read)
        return fault_set(f, ERR_BAD_VALUE, "",
                         "a key is written NAME+ID+BASE64: 8 digits of the id, 44 of the key");
    if (bytes[0] != NOTE_AUTHOR && bytes[0] != NOTE_WITNESS)
        return fault_set(f, ERR_BAD_VALUE, "",
                         "the key is of type %u; only the types 1 and 4 (Ed25519) are read",
                         bytes[0]);
    struct note_key k = key_of(name, bytes[0], bytes + 1);
    if (k.id != key_id_of(id))
        return fault_set(f, ERR_BAD_VALUE, "", "the id of this name and key is %08x, not %.*s",
                         k.id, STR_FORMAT(hex));
    *ret = k;
    return ERR_OK;
}

void note_key_put(struct buf *out, const struct note_key *k)
{
    char typed[TYPED_KEY_BYTES] = {(char)k->type};
    memcpy(typed + 1, k->public_key, ED25519_KEY_BYTES);
    buf_put(out, k->name);
    buf_printf(out, "+%08x+", k->id);
    base64_put(out, str_of(typed, sizeof typed), 0);
}

/* ---- signatures ---- */

static bool is_by(const struct note_signature *s, const struct note_key *k)
{
    return s->key_id == k->id && str_equal(s->name, k->name);
}

/* What a witness signs. False: it is too long. */
static bool put_cosigned(struct buf *out, uint64_t time_s, struct str text)
{
    buf_put_literal(out, "cosignature/v1\ntime ");
    buf_put_u64(out, time_s);
    buf_put_byte(out, '\n');
    buf_put(out, text);
    return !out->overflow;
}

static bool is_good(struct str text, struct str digits, enum note_key_type type,
                    const struct public_key *key, uint64_t *ret_time_s)
{
    uint8_t bytes[COSIGNED_DIGITS / 4 * 3];
    char cosigned[NOTE_COSIGNED_MAX + 64];
    struct buf message = buf_over(cosigned, sizeof cosigned);
    size_t size, wanted = type == NOTE_WITNESS ? COSIGNED_BYTES : SIGNED_BYTES;
    if (digits.size > COSIGNED_DIGITS || !base64_read(digits, bytes, &size) || size != wanted)
        return false;
    *ret_time_s = 0;
    if (type == NOTE_WITNESS) {
        for (size_t i = 0; i < TIME_BYTES; i++)
            *ret_time_s = *ret_time_s << 8 | bytes[KEY_ID_BYTES + i];
        if (*ret_time_s > INT64_MAX || !put_cosigned(&message, *ret_time_s, text)) return false;
        text = buf_view(&message);
    }
    return public_key_verify(
        key, text,
        str_of((const char *)bytes + size - ED25519_SIGNATURE_BYTES, ED25519_SIGNATURE_BYTES));
}

enum note_verdict note_verify_witness(const struct note *n, const struct note_key *k,
                                      uint64_t *ret_time_s)
{
    enum note_verdict verdict = NOTE_UNSIGNED;
    struct public_key *key = NULL;
    *ret_time_s = 0;
    for (size_t i = 0; i < n->count && verdict != NOTE_FORGED; i++) {
        uint64_t time_s;
        if (!is_by(&n->signatures[i], k)) continue;
        if (key == NULL)
            key = public_key_ed25519(str_of((const char *)k->public_key, ED25519_KEY_BYTES));
        bool good = key != NULL && is_good(n->text, n->signatures[i].digits, k->type, key, &time_s);
        verdict = good ? NOTE_SIGNED : NOTE_FORGED;
        if (good && time_s > *ret_time_s) *ret_time_s = time_s;
    }
    public_key_destroy(key);
    return verdict;
}

enum note_verdict note_verify(const struct note *n, const struct note_key *k)
{
    return note_verify_witness(n, k, &(uint64_t){0});
}

bool note_sign(struct buf *out, struct str text, struct str name, const struct ed25519 *key)
{
    uint8_t public_key[ED25519_KEY_BYTES], bytes[SIGNED_BYTES];
    check(text.size > 0 && text.bytes[text.size - 1] == '\n' && is_text(text, &(size_t){0}));
    ed25519_public(key, public_key);
    struct note_key k = note_key_of(name, public_key);
    for (size_t i = 0; i < KEY_ID_BYTES; i++) bytes[i] = (uint8_t)(k.id >> (24 - 8 * i));
    if (!ed25519_sign(key, text, bytes + KEY_ID_BYTES)) return false;
    buf_put(out, text);
    buf_put_byte(out, '\n');
    buf_put(out, line_start);
    buf_put(out, name);
    buf_put_byte(out, ' ');
    base64_put(out, str_of((const char *)bytes, sizeof bytes), 0);
    buf_put_byte(out, '\n');
    return true;
}

/* person.h - from the claims of a verified token to a person with a tenant and roles, as the options
 * oidc.NAME.… map them. Pure, any thread. */
#ifndef OIDC_PERSON_H
#define OIDC_PERSON_H

#include "json/json.h"
#include "oidc/oidc.h"

/* `claims` is the payload of a token that was verified. The claim `email` counts only with
 * `email_verified`. A person has no `*` in it, because names are patterns in other places. The views
 * are those of `claims` and of the settings; `expires_at` is left 0. ERR_IDENTITY_REFUSED: something
 * is missing, has another form, or is not mapped; the text names it, but no value of the token.
 * ERR_BODY_TOO_LARGE: the arena is full. */
enum err person_read(const struct oidc_settings *s, const struct json *claims, struct arena *arena,
                     struct identity *ret, struct fault *f);

#endif

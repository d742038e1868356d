/* relying_party.h - the identity providers of the configuration, as people sign in at them with a
 * browser: their list, the addresses that they get from us, and the sign-out there. The protocol is in
 * oidc/oidc.h, the way of a sign-in in sign_in.c. Belongs to the reactor. */
#ifndef PLATFORM_RELYING_PARTY_H
#define PLATFORM_RELYING_PARTY_H

#include "platform/platform.h"

/* Logs a warning if people cannot sign in at the providers of the configuration, because nothing leads
 * them back: public_url is not set, or the console is switched off. */
void relying_party_tell(const struct platform *p);

/* Whether the provider of this name is configured. */
bool provider_is_there(const struct platform *p, struct str name);
/* The number of the provider of this name, if people can sign in there. ERR_NOT_FOUND. */
enum err provider_find(const struct platform *p, struct str name, size_t *ret, struct fault *f);
/* Where it sends the answer to a sign-in: "https://writ.example/api/v1/session/oidc/NAME/callback". */
void provider_put_redirect(struct buf *out, const struct platform *p, struct str name);
/* "end_session_url":"https://…", if the session's provider has a sign-out, else nothing. */
void provider_put_end(struct buf *out, struct platform *p, const struct session *s);

#endif

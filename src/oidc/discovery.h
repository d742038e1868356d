/* discovery.h - the document at ISSUER/.well-known/openid-configuration (OpenID Connect Discovery 1.0).
 * Pure, any thread. */
#ifndef OIDC_DISCOVERY_H
#define OIDC_DISCOVERY_H

#include "oidc/oidc.h"

struct discovery {
    char authorization[OIDC_URL_MAX + 1];
    char token[OIDC_URL_MAX + 1];
    char keys[OIDC_URL_MAX + 1];
    char end_session[OIDC_URL_MAX + 1]; /* "": none */
    bool names_issuer; /* authorization_response_iss_parameter_supported (RFC 9207, 3) */
};

/* Its issuer must be that of the settings, byte for byte, and its addresses https:// (or as
 * provider_url_wrong() allows). It must offer what a sign-in needs: the response type `code`, PKCE with
 * S256, a signature that we verify, and client_secret_basic, or `none` for a client without a secret.
 * ERR_PROVIDER_UNAVAILABLE: the text names the member. ERR_BODY_TOO_LARGE: the arena is full. */
enum err discovery_read(struct str text, const struct oidc_settings *s, struct arena *arena,
                        struct discovery *ret, struct fault *f);

/* NULL: the address is right; else what is wrong with it. https://host with a port and a path, without
 * user and fragment; http:// for localhost, 127.0.0.1 and [::1] only, and only if the settings allow it. */
const char *provider_url_wrong(const struct oidc_settings *s, struct str url);

#endif

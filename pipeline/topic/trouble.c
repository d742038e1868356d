/* trouble.c - the client library's errors, with the next step for people.
 *
 * Its texts name its own settings, and are the same for every refused certificate. They report a
 * wrong protocol only as a closed connection, or as brokers that are down. The hint depends on the
 * certificate's error, then on words of the text. The hint comes first, since a long text is
 * cut. */
#include <stdio.h>

#include "pipeline/topic/topic.h"

/* OpenSSL's X509_V_ERR_…; it never changes these numbers. */
static const char *of_certificate(int x509_error)
{
    switch (x509_error) {
    case 9: return "the broker's certificate is not valid yet: check both clocks";
    case 10: return "the broker's certificate has expired";
    case 18:
    case 19:
    case 20:
    case 21:
    case 2:
        return "the broker's certificate is not signed by a trusted authority: look at kafka.ca_file";
    case 23: return "the broker's certificate was revoked";
    case 62:
    case 64:
        return "the broker's certificate is for another host than kafka.brokers, or the address that the broker advertises, names";
    default: return "the broker's certificate is refused";
    }
}

/* 2.6.1 corrected its nonce, which brokers compare from Kafka 4 on */
enum { LIBRARY_OF_SCRAM = 0x020601ff };

static const char *of_words(const char *reason, int library)
{
    static const struct {
        const char *words, *hint;
    } known[] = {
        {"invalid_token", "the brokers refuse the token in kafka.token_file"},
        {"SASL authentication error",
         "the brokers refuse kafka.user or the password in kafka.password_file"},
        {"mechanism handshake failed",
         "the brokers do not accept this kafka.sasl_mechanism, or no login on this port: look at kafka.security"},
        {"connecting to a SSL listener", "this may be a port for TLS: look at kafka.security"},
        {"security.protocol", "look at kafka.security"},
        {"SSL handshake failed",
         "the TLS handshake failed; check that this is a port for TLS, and look at kafka.security"},
        {"SSL transport error",
         "the broker ends the connection; it may require a login: look at kafka.security"},
        {"brokers are down",
         "no broker answers: look at kafka.brokers; if they are running, look at kafka.security"},
        {"ssl.ca.location", "kafka.ca_file cannot be used: it must be a readable PEM file"},
    };
    if (strstr(reason, "mechanism SCRAM") != NULL && library < LIBRARY_OF_SCRAM)
        return "the brokers refuse kafka.user or the password in kafka.password_file; or they are of Kafka 4, and need a librdkafka of "
               "2.6.1 or newer for SCRAM";
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strstr(reason, known[i].words) != NULL) return known[i].hint;
    return NULL;
}

void topic_trouble_write(const char *reason, int x509_error, int library,
                         char to[TOPIC_TROUBLE_TEXT])
{
    const char *hint = x509_error != 0 ? of_certificate(x509_error) : of_words(reason, library);
    int rest = TOPIC_TROUBLE_TEXT - 1 - (hint == NULL ? 7 : (int)strlen(hint) + 10);
    if (hint == NULL)
        snprintf(to, TOPIC_TROUBLE_TEXT, "Kafka: %.*s", rest, reason);
    else
        snprintf(to, TOPIC_TROUBLE_TEXT, "Kafka: %s (%.*s)", hint, rest, reason);
}

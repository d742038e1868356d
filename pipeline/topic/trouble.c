/* trouble.c - the client library's complaints, with what to do about them.
 *
 * Its sentences name its own settings, say one thing of every certificate that it refuses, and
 * hide a wrong protocol behind a connection that was ended, or behind brokers that are down. A
 * hint is chosen by what was seen (the certificate), then by words of the sentence; it comes
 * first, since a long sentence is cut. */
#include <stdio.h>

#include "pipeline/topic/topic.h"

/* OpenSSL's X509_V_ERR_…; numbers that it never changes. */
static const char *of_certificate(int x509_error)
{
    switch (x509_error) {
    case 9: return "the broker's certificate is not valid yet: look at both clocks";
    case 10: return "the broker's certificate has expired";
    case 18:
    case 19:
    case 20:
    case 21:
    case 2:
        return "the broker's certificate is of no authority that is trusted here: look at kafka.ca_file";
    case 23: return "the broker's certificate was revoked";
    case 62:
    case 64:
        return "the broker's certificate is for another host than kafka.brokers, or what that broker calls itself, names";
    default: return "the broker's certificate is refused";
    }
}

/* 2.6.1 mended its nonce, which brokers compare from Kafka 4 on */
enum { LIBRARY_OF_SCRAM = 0x020601ff };

static const char *of_words(const char *reason, int library)
{
    static const struct {
        const char *words, *hint;
    } known[] = {
        {"invalid_token", "the brokers refuse the token in kafka.token_file"},
        {"SASL authentication error",
         "the brokers refuse kafka.user or what is in kafka.password_file"},
        {"mechanism handshake failed",
         "the brokers do not take this kafka.sasl.mechanism, or no login there: look at kafka.security"},
        {"connecting to a SSL listener", "this may be a port for TLS: look at kafka.security"},
        {"security.protocol", "look at kafka.security"},
        {"SSL handshake failed",
         "TLS did not come about; is this a port for TLS? Look at kafka.security"},
        {"SSL transport error",
         "the broker ends the connection; does it want a login? Look at kafka.security"},
        {"brokers are down",
         "no broker answers: look at kafka.brokers; where they are up, look at kafka.security"},
        {"ssl.ca.location", "kafka.ca_file cannot be used: it must be a readable PEM file"},
    };
    if (strstr(reason, "mechanism SCRAM") != NULL && library < LIBRARY_OF_SCRAM)
        return "the brokers refuse kafka.user or what is in kafka.password_file; or they are of Kafka 4, and need a librdkafka of "
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

#include <stdio.h>

#include "pipeline/topic/topic.h"

void topic_trouble_write(const char *reason, int x509_error, char to[TOPIC_TROUBLE_TEXT])
{
    snprintf(to, TOPIC_TROUBLE_TEXT, "Kafka: %s (%d)", reason, x509_error);
}

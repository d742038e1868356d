/* metered.h - inside this room only: the tenant of a `*` key is settled late. */
#ifndef API_METERED_H
#define API_METERED_H

#include "api/api.h"

/* Counts the request for the caller's tenant, which is settled now. ERR_QUOTA_TENANT. */
enum err api_meter_tenant(struct caller *c, struct fault *f);

#endif

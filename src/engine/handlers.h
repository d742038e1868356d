/* handlers.h - the handlers of the engine's own routes (control/routes.c), by the file of each.
 * `context` is a reactor. */
#ifndef ENGINE_HANDLERS_H
#define ENGINE_HANDLERS_H

struct http_exchange;

void authorize_handle(void *context, struct http_exchange *x);          /* authorize.c */
void authorize_batch_handle(void *context, struct http_exchange *x);    /* batch.c */
void authzen_evaluation_handle(void *context, struct http_exchange *x); /* authzen.c */
void authzen_evaluations_handle(void *context, struct http_exchange *x);
void authzen_configuration_handle(void *context, struct http_exchange *x);
void queue_pending_handle(void *context, struct http_exchange *x); /* queue.c */
void queue_list_handle(void *context, struct http_exchange *x);
void queue_get_handle(void *context, struct http_exchange *x);
void queue_wait_handle(void *context, struct http_exchange *x);
void queue_approve_handle(void *context, struct http_exchange *x);
void queue_deny_handle(void *context, struct http_exchange *x);
void queue_revoke_handle(void *context, struct http_exchange *x);
void queue_cancel_handle(void *context, struct http_exchange *x);
void queue_redeem_handle(void *context, struct http_exchange *x); /* redeem.c */
void actor_list_handle(void *context, struct http_exchange *x);   /* actors.c */
void actor_suspend_handle(void *context, struct http_exchange *x);
void actor_resume_handle(void *context, struct http_exchange *x);
void token_mint_handle(void *context, struct http_exchange *x);   /* mint.c */
void token_revoke_handle(void *context, struct http_exchange *x); /* tokens.c */
void token_list_handle(void *context, struct http_exchange *x);
void signer_rotate_handle(void *context, struct http_exchange *x); /* rotate.c */
void jwks_handle(void *context, struct http_exchange *x);
void fleet_snapshot_handle(void *context, struct http_exchange *x);
void token_introspect_handle(void *context, struct http_exchange *x); /* introspect.c */
void healthz_handle(void *context, struct http_exchange *x);          /* health.c */
void livez_handle(void *context, struct http_exchange *x);
void readyz_handle(void *context, struct http_exchange *x);
void config_check_handle(void *context, struct http_exchange *x);
void metrics_handle(void *context, struct http_exchange *x);
void fleet_view_handle(void *context, struct http_exchange *x); /* fleet_requests.c */
void fleet_lead_handle(void *context, struct http_exchange *x);
void fleet_upgrade_handle(void *context, struct http_exchange *x);

#endif

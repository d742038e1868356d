"""The README's story, told by a client that openapi-python-client has made."""

import json
import os

from writ_engine_client import AuthenticatedClient
from writ_engine_client.api.decisions import authorize_agent, authorize_batch, evaluate_access
from writ_engine_client.api.operations import health
from writ_engine_client.api.reviews import approve_review, list_pending_reviews, redeem_review, wait_for_review
from writ_engine_client.models import (AgentRequest, BatchRequest, Decision, Entity, Error, Evaluation, EvaluationAction, EvaluationContext,
                                       Resolution, ResolvedReview, Review, ReviewPage)

agent, carol = (AuthenticatedClient(os.environ["STORY_URL"], token=os.environ[name]) for name in ("STORY_AGENT", "STORY_CAROL"))


def refund(amount):
    return AgentRequest.from_dict({
        "actor": "invoice_bot", "action": "issue_refund", "confidence": 0.95, "args": {"amount": amount, "lines": [{"n": 1}]},
        "resource": {"type": "order", "id": "17", "properties": {"paid": True}}, "context": {"channel": "mail", "acting_for": "erin"}})


def ask(body, **more):
    return authorize_agent.sync(client=agent, body=body, **more)


small, again = (ask(refund(120), idempotency_key="call-py") for _ in range(2))
large = ask(refund(620))
assert all(isinstance(one, Decision) for one in (small, again, large))
page = list_pending_reviews.sync(client=carol, limit=10)
assert isinstance(page, ReviewPage)
listed = any(item.id == large.review_id and item.args["amount"] == 620 for item in page.items)
approved = approve_review.sync(large.review_id, client=carol, body=Resolution(resolved_by="carol", note="fine"))
waited = wait_for_review.sync(large.review_id, client=agent, timeout_ms=5000)
assert isinstance(approved, ResolvedReview) and isinstance(waited, Review)
redeemed = redeem_review.sync(large.review_id, client=agent, body=refund(620), idempotency_key="redeem-py")
denied, sandboxed = (ask(AgentRequest(actor="invoice_bot", action=action)) for action in ("drop_table", "write_orders"))
wrong = ask(AgentRequest(actor="invoice_bot", action="issue_refund", confidence=2))
assert isinstance(wrong, Error)
batch = authorize_batch.sync(client=agent, body=BatchRequest([refund(20), AgentRequest(actor="invoice_bot", action="drop_table")]))
context = EvaluationContext()
context["confidence"] = 0.95
evaluated = evaluate_access.sync(client=agent, body=Evaluation(
    subject=Entity("agent", "invoice_bot"), action=EvaluationAction.from_dict({"name": "issue_refund", "properties": {"amount": 30}}),
    resource=Entity("order", "18"), context=context))

print(json.dumps({
    "small": small.decision, "again": again.replayed, "large": large.decision, "listed": listed, "approved": approved.status, "waited": waited.status,
    "redeemed": redeemed.decision, "denied": denied.rule, "safe": [sandboxed.safe_tool, sandboxed.safe_args["sandboxed"]],
    "wrong": [wrong.code, wrong.field], "batch": [one.decision for one in batch.decisions], "evaluated": evaluated.decision,
    "healthy": health.sync(client=agent).service}))

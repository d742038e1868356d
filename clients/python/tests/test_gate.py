"""What a program sees of gate, guard, request and the test double."""

import asyncio
import logging
import os
import pathlib
import sys
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import writ_client  # noqa: E402
from writ_client import answers, transport  # noqa: E402
from writ_client import AsyncClient, Client, Denied, NoDecision, ReviewPending  # noqa: E402
from writ_client.testing import Engine  # noqa: E402

logging.getLogger("writ_client").setLevel(logging.CRITICAL)


class Gates(unittest.TestCase):
    def setUp(self):
        self.engine = self.enterContext(Engine())
        self.ran = []

    def refund(self, client, **options):
        @client.gate("issue_refund", **options)
        def issue_refund(amount, currency="EUR"):
            self.ran.append((amount, currency))
            return f"refunded {amount}"
        return issue_refund

    def test_defaults_are_sent_and_run(self):
        self.engine.allow("issue_refund")
        self.assertEqual(self.refund(self.engine.client())(5), "refunded 5")
        self.assertEqual(self.engine.requests[0], {"action": "issue_refund", "args": {"amount": 5, "currency": "EUR"}})
        self.assertEqual(self.ran, [(5, "EUR")])

    def test_without_a_rule_nothing_runs(self):
        with self.assertRaises(Denied) as caught:
            self.refund(self.engine.client())(5)
        self.assertEqual((caught.exception.rule, self.ran), ("default:deny", []))

    def test_an_engine_that_is_away_runs_nothing(self):
        self.engine.allow("*")
        self.engine.away()
        with self.assertRaises(NoDecision) as caught:
            self.refund(self.engine.client())(5)
        self.assertTrue(caught.exception.outage)
        self.assertEqual(self.ran, [])

    def test_a_safe_call_runs_the_other_tool(self):
        client, wrote = self.engine.client(), []
        self.engine.compute("issue_refund", "write_note", {"text": "asked for"})
        client.guard(lambda text: wrote.append(text), "write_note")
        self.refund(client)(5)
        self.assertEqual((self.ran, wrote), ([], ["asked for"]))

    def test_safe_arguments_that_do_not_fit_run_nothing(self):
        self.engine.compute("issue_refund", "issue_refund", {"sum": 1})
        with self.assertRaises(TypeError):
            self.refund(self.engine.client())(5)
        self.assertEqual(self.ran, [])

    def test_hidden_parameters_are_not_sent_and_cannot_be_set(self):
        client = self.engine.client()
        self.engine.allow("pay", when=lambda asked: asked["args"] == {"amount": 5})
        self.engine.compute("pay", "pay", {"amount": 1, "session": "theirs"})

        @client.gate(hidden=["session"])
        def pay(amount, session):
            self.ran.append((amount, session))

        pay(5, object)
        self.assertEqual(self.ran, [(5, object)])
        with self.assertRaises(NoDecision):
            pay(6, object)
        self.assertEqual(len(self.ran), 1)

    def test_arguments_that_json_would_change_run_nothing(self):
        self.engine.allow("*")
        refund = self.refund(self.engine.client())
        for value in (object(), float("nan"), {1: 2}, b"x", {"a": {1, 2}}):
            with self.assertRaises(TypeError):
                refund(value)
        self.assertEqual((self.ran, self.engine.requests), ([], []))

    def test_what_runs_is_a_copy(self):
        self.engine.allow("*")
        amounts = [1, 2]
        self.refund(self.engine.client())(amounts)
        amounts.append(3)
        self.assertEqual(self.ran, [([1, 2], "EUR")])

    def test_parameters_without_a_name_are_refused_when_they_are_decorated(self):
        with self.assertRaises(TypeError):
            self.engine.client().gate("x")(lambda *amounts: None)

    def test_request_adds_members(self):
        self.engine.allow("*")
        refund = self.refund(self.engine.client(actor="bot"), acting_for="carol")
        with writ_client.request(confidence=0.9, trace_id="refund-17"):
            refund(5)
        asked = self.engine.requests[0]
        self.assertEqual({name: asked[name] for name in asked if name not in ("action", "args")},
                         {"actor": "bot", "acting_for": "carol", "confidence": 0.9, "trace_id": "refund-17"})
        with self.assertRaises(TypeError):
            with writ_client.request(confidance=0.9):
                pass

    def test_a_frameworks_ids_are_sent_where_no_member_gives_them_and_stop_no_call(self):
        self.engine.allow("pay")
        client, ids = self.engine.client(), {"tool_call_id": "call_1", "conversation_id": "thread-7"}

        def sent(ids, client=client, **members):
            client.permit("pay", {}, ids=ids, **members)
            return tuple(self.engine.requests[-1].get(name) for name in ("tool_call_id", "conversation_id"))

        self.assertEqual(sent(ids), ("call_1", "thread-7"))
        self.assertEqual(sent({"tool_call_id": 7}), ("7", None))
        self.assertEqual(sent(ids, conversation_id="own"), ("call_1", "own"))
        self.assertEqual(sent(ids, self.engine.client(conversation_id="own")), ("call_1", "own"))
        with writ_client.request(conversation_id="own"):
            self.assertEqual(sent(ids), ("call_1", "own"))
        self.assertEqual(sent({"tool_call_id": "\U0001f600" * 300, "conversation_id": None}), ("\U0001f600" * 256, None))

    def test_coroutines_are_gated_by_both_clients(self):
        self.engine.allow("pay", when=lambda asked: asked["args"]["amount"] < 10)

        async def pay(amount):
            self.ran.append(amount)

        async def both(client):
            gated = client.gate("pay")(pay)
            await gated(5)
            with self.assertRaises(Denied):
                await gated(50)

        for client in (self.engine.client(), self.engine.async_client()):
            asyncio.run(both(client))
        self.assertEqual(self.ran, [5, 5])

    def test_one_client_serves_several_event_loops_and_threads(self):
        self.engine.allow("*")
        client = self.engine.async_client()

        def one():
            asyncio.run(client.permit("get", {}))

        for _ in range(2):
            threads = [threading.Thread(target=one) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.assertEqual(len(self.engine.requests), 16)

    def test_a_fork_can_use_the_client(self):
        self.engine.allow("*")
        client = self.engine.client()
        client.permit("get", {})
        child = os.fork()
        if child == 0:
            try:
                client.permit("get", {})
                os._exit(0)
            finally:
                os._exit(1)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)

    def test_a_person_approves(self):
        self.engine.review("issue_refund")
        refund = self.refund(self.engine.client(wait=10))
        person = threading.Thread(target=self.engine.approve)
        person.start()
        self.assertEqual(refund(620), "refunded 620")
        person.join()

    def test_a_pending_review_is_resumed_once(self):
        self.engine.review("issue_refund")
        refund = self.refund(self.engine.client(wait=0.05))
        with self.assertRaises(ReviewPending) as caught:
            refund(620)
        self.engine.approve(caught.exception.review_id)
        with self.assertRaises(Denied) as swapped, writ_client.request(review_id=caught.exception.review_id):
            refund(9000)
        self.assertEqual((swapped.exception.rule, self.ran), ("review:binding", []))
        with writ_client.request(review_id=caught.exception.review_id):
            refund(620)
            with self.assertRaises(Denied):
                refund(620)
        self.assertEqual(self.ran, [(620, "EUR")])

    def test_two_tasks_with_one_review_run_it_once(self):
        self.engine.review("pay")

        async def main():
            client = self.engine.async_client(wait=10)
            tasks = [asyncio.ensure_future(client.permit("pay", {"n": 1})) for _ in range(2)]
            await asyncio.to_thread(self.engine.pending)
            await asyncio.sleep(0.2)  # both of them wait for it
            self.engine.approve()
            return await asyncio.gather(*tasks, return_exceptions=True)

        kinds = sorted(type(outcome).__name__ for outcome in asyncio.run(main()))
        self.assertEqual(kinds, ["Call", "Denied"])

    def test_a_cancelled_redemption_is_in_doubt(self):
        self.engine.review("pay")

        async def main():
            client = self.engine.async_client(wait=0)
            with self.assertRaises(ReviewPending) as caught:
                await client.permit("pay", {"n": 1})
            review = self.engine.approve(caught.exception.review_id)
            post = client._transport.post

            async def post_and_hang(*arguments, **options):
                await post(*arguments, **options)  # the engine has it; the answer is not seen
                await asyncio.sleep(60)

            client.wait, client._transport.post = 5, post_and_hang
            task = asyncio.ensure_future(client.permit("pay", {"n": 1}, review_id=review.id, ids={"tool_call_id": "call_1", "conversation_id": "thread-7"}))
            while review.status != "redeemed":
                await asyncio.sleep(0.01)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            client._transport.post = post
            return await client.permit("pay", {"n": 1}, review_id=review.id, ids={"tool_call_id": "call_2"})  # the model has called again

        self.assertEqual(asyncio.run(main()).args, {"n": 1})

    def test_a_retry_after_is_seconds_or_a_date_or_nothing(self):
        def read(text):
            return transport._retry_after(answers.Answer(503, {"retry-after": text}, b"", "id", True))

        self.assertEqual([read(text) for text in ("0", "7", "9" * 400)], [0.0, 7.0, 999999999.0])
        for text in ("", "soon", "-1", "\u00b2", "1.5", "Fri, 31 Dec 99999999999 23:59:59 GMT"):
            self.assertIsNone(read(text), text)
        self.assertGreater(read("Fri, 31 Dec 2077 23:59:59 GMT"), 1e6)

    def test_wrong_settings_are_refused(self):
        for settings in ({"on_error": "opne"}, {"deadline": 0}, {"wait": -1}, {"confidance": 1}):
            with self.assertRaises((ValueError, TypeError)):
                Client("http://127.0.0.1:1", "wk_x", **settings)
        for url, key in (("127.0.0.1:8080", "wk_x"), ("http://127.0.0.1:1", "wk x"), ("ftp://127.0.0.1", "wk_x")):
            with self.assertRaises(ValueError):
                AsyncClient(url, key)


if __name__ == "__main__":
    unittest.main()

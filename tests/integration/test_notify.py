"""Messages about reviews where two platforms share PostgreSQL: one sends, and the other takes over."""

import harness
import receiver

POLICY = "rules: [{id: all, actions: [pay], decision: human_review, review: {notify: [hook]}}]"


def test_the_other_platform_takes_over_and_sends_each_message_once(fleet, postgres, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text(receiver.SECRET + "\n")
    secret.chmod(0o600)
    with receiver.Receiver() as server:
        channel = {"kind": "webhook", "url": f"{server.url}/hook", "secret_file": secret, "allow_private": "true", "allow_plaintext": "true"}
        options = [word for key, value in channel.items() for word in (f"--notify.hook.{key}", str(value))]
        one = fleet(postgres=postgres, platform=options)
        stack = one.stack
        rita = stack.key("rita", ["reviewer"], owner="rita", reviewers=["*"])
        stack.policy("base", POLICY)

        def decide():
            with stack.at_engine() as agent, stack.at_engine(rita) as reviewer:
                review = agent.post("/v1/agent/authorize", {"action": "pay", "actor": "bot", "confidence": 1}).json["review_id"]
                assert reviewer.post(f"/v1/queue/{review}/deny").status == 200

        def sent(count):
            harness.eventually(lambda: len(server.messages) >= count, f"{count} messages")
            return [receiver.verify(message)["type"] for message in server.messages]

        decide()
        assert sent(2) == ["review.enqueued", "review.denied"]
        port = harness.free_port()
        (one.folder / "other").mkdir()
        other = harness.Program("writ-platform", port, ["--data", str(one.folder / "other"), "--store.url", one.store_url, "--pepper_file", str(stack.data / "pepper"),
                                                        "--listen", f"127.0.0.1:{port}", *options], one.folder / "other.log")
        other.start()
        try:
            decide()
            sent(4)
            stack.platform.stop()
            stack.platform.start()
            decide()
            sent(6)
            other.kill()
            decide()
            assert sent(8) == ["review.enqueued", "review.denied"] * 4, "each once, in their order"
        finally:
            other.end()
        harness.eventually(lambda: stack.metrics(stack.platform)["writ_platform_notify_waiting"] == 0, "nothing waits")

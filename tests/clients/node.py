"""Node.js and the client for TypeScript, led by a test in Python."""

import json
import pathlib
import re
import subprocess
import threading

TOP = pathlib.Path(__file__).resolve().parents[2]
CLIENT = TOP / "clients" / "typescript"
PATIENCE = 60


def version():
    """The major version of node, or 0."""
    try:
        return int(re.match(r"v(\d+)", subprocess.run(["node", "--version"], capture_output=True, text=True).stdout)[1])
    except (OSError, TypeError):
        return 0


class Driver:
    """clients/typescript/test/driver.mjs, running. Its client's tools record their calls."""

    def __init__(self, command=("node",)):
        self.process = subprocess.Popen([*command, CLIENT / "test" / "driver.mjs"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.changed, self.writing = threading.Condition(), threading.Lock()
        self.answers, self.reviews, self.logs, self.count = {}, [], [], 0
        threading.Thread(target=self._read, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(PATIENCE)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def _read(self):
        for text in self.process.stdout:
            line = json.loads(text)
            with self.changed:
                if "id" in line:
                    self.answers[line["id"]] = line
                elif "review" in line:
                    self.reviews.append(line)
                else:
                    self.logs.append(line["log"])
                self.changed.notify_all()

    def _wait(self, question, what, seconds=PATIENCE):
        with self.changed:
            assert self.changed.wait_for(question, seconds), f"still not so: {what}"

    def begin(self, **line):
        """Starts something; its number."""
        with self.writing:
            self.count += 1
            self.process.stdin.write(json.dumps({"id": self.count, **line}) + "\n")
            self.process.stdin.flush()
            return self.count

    def end(self, number, seconds=PATIENCE):
        self._wait(lambda: number in self.answers, f"answer {number}", seconds)
        return self.answers[number]

    def do(self, **line):
        return self.end(self.begin(**line))

    def run(self, tool, args, **options):
        return self.do(run=[tool, args, options])

    def review(self, count=1):
        """The last of so many reviews that the client waits for."""
        self._wait(lambda: len(self.reviews) >= count, f"{count} reviews")
        return self.reviews[count - 1]["review"]

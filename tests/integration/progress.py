"""Counts that several runs of a long test add up, in a file."""

import collections
import fcntl
import json


class Progress:
    """Several runs may add to the file at the same time. `wanted`: how often each name has to be counted, among what is added as `of`."""

    def __init__(self, path, wanted, of):
        self.path, self.wanted, self.of = path, wanted, of
        path.parent.mkdir(parents=True, exist_ok=True)

    def add(self, **more):
        with open(self.path, "a+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            text = file.read()
            now = json.loads(text) if text else {}
            for name, value in more.items():
                if isinstance(value, dict):
                    now[name] = dict(collections.Counter(now.get(name, {})) + collections.Counter(value))
                else:
                    now[name] = now.get(name, type(value)()) + value
            file.truncate(0)
            file.write(json.dumps(now, indent=1))
        return now

    def missing(self):
        done = self.add().get(self.of, {})
        return {name: count - done.get(name, 0) for name, count in self.wanted.items() if count > done.get(name, 0)}

"""Rules and dashboard against the programs and a real Prometheus: no query names what is not there, every one
of the dashboard's returns data, and a healthy pair of programs sets off no alert.

Prometheus and promtool come from Debian's package, unpacked and not installed (ops/setup test does that).
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

import pytest

from harness import PATIENCE, Stack, eventually, free_port

TOP = pathlib.Path(__file__).resolve().parents[2]
FOLDER = TOP / "ops" / "dashboards"
RULES, RULE_TESTS, DASHBOARD = FOLDER / "writ.rules.yaml", FOLDER / "writ.rules.test.yaml", FOLDER / "writ.json"
BASE = """
rules:
  - {id: reads, agents: ["*"], users: ["*"], actions: ["get_*"], decision: allow}
  - {id: refunds, actions: [issue_refund], decision: human_review, reason: Refunds need finance.}
"""
KEYWORDS = set("by without on ignoring group_left group_right offset and or unless bool atan2 inf nan".split())
VARIABLES = {"$__rate_interval": "10s", "$instance": ".*"}


def tool(name):
    places = [os.environ.get(name.upper()), shutil.which(name), TOP / "build" / "promtool" / "x" / "usr" / "bin" / name]
    found = next((place for place in places if place and os.access(place, os.X_OK)), None)
    if found is None:
        pytest.skip(f"SKIP: no {name} (ops/setup test fetches it)")
    return str(found)


def promtool(*arguments, **options):
    return subprocess.run([tool("promtool"), *map(str, arguments)], capture_output=True, text=True, timeout=PATIENCE, **options)


# ---- what the files ask for ----


def rule_expressions():
    """{name of the rule: expression}; a folded one becomes one line."""
    text = re.sub(r"expr: >-\n((?:\s{10,}\S.*\n)+)", lambda m: "expr: " + " ".join(m[1].split()) + "\n", RULES.read_text())
    found = dict(re.findall(r"- (?:alert|record): (\S+)\n\s+expr: (.+)\n", text))
    assert len(found) == len(re.findall(r"- (?:alert|record): ", text)) == len(re.findall(r"expr: ", text))
    return found


def recorded():
    return set(re.findall(r"- record: (\S+)", RULES.read_text()))


def panels(of):
    for panel in of:
        yield panel
        yield from panels(panel.get("panels", []))


def dashboard():
    return json.loads(DASHBOARD.read_text())


def dashboard_expressions():
    """{panel and refId: expression}, with Grafana's variables replaced."""
    found = {}
    for panel in panels(dashboard()["panels"]):
        for target in panel.get("targets", []):
            found[f"{panel['id']} {panel['title']}/{target['refId']}"] = filled(target["expr"])
    assert len(found) > 60
    return found


def filled(expression):
    for name, value in VARIABLES.items():
        expression = expression.replace(name, value)
    assert "$" not in expression, f"a variable that Grafana would not know either: {expression}"
    return expression


def names_of(expression):
    """The series that a PromQL expression reads: what is left without strings, labels, ranges and functions."""
    bare = re.sub(r'"(?:\\.|[^"\\])*"', "", expression)
    bare = re.sub(r"\{[^}]*\}|\[[^\]]*\]", "", bare)
    bare = re.sub(r"\b(by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)", " ", bare)
    bare = re.sub(r"\boffset\s+\w+", " ", bare)
    words = re.findall(r"(?<![\w:.])([a-zA-Z_:][\w:]*)\s*(\()?", bare)
    return {word for word, call in words if not call and word.lower() not in KEYWORDS}


def matchers_of(expression):
    """[(series, label, value)] of the plain matchers."""
    found = []
    for series, labels in re.findall(r"([a-zA-Z_:][\w:]*)\{([^}]*)\}", expression):
        found += [(series, label, value) for label, value in re.findall(r'(\w+)="([^"]*)"', labels)]
    return found


def table():
    """{series: {label: values}} of metrics.def and the process's own."""
    known = {}
    text = (TOP / "src/metrics/metrics.def").read_text()
    for kind, name, labels in re.findall(r'^(COUNTER|GAUGE|HISTOGRAM)\(\w+, "(\w+)", "((?:\\"|[^"])*)"', text, re.M):
        for series in [name + part for part in ("_bucket", "_sum", "_count")] if kind == "HISTOGRAM" else [name]:
            values = known.setdefault(series, {})
            for label, value in re.findall(r'(\w+)=\\"(\w+)\\"', labels):
                values.setdefault(label, set()).add(value)
    for name in re.findall(r'\{"(writ_process_\w+)"', (TOP / "src/metrics/process.c").read_text()):
        known[name] = {}
    assert len(known) > 80
    return known


@pytest.mark.parametrize("expression, names", [
    ('up{job="a"} == 0', {"up"}), ("sum by (x, le) (rate(a_total[5m])) / on () sum(b:c)", {"a_total", "b:c"}),
    ('a > 2 * (a offset 1h) and on () b{c="d and e"} unless 5e3', {"a", "b"}), ("histogram_quantile(0.99, sum by (le) (rate(x_bucket{y=~\"z\"}[1m])))", {"x_bucket"}),
    ("time() - s", {"s"}), ("a < on () group_left () max(b)", {"a", "b"}),
])
def test_names_are_found_in_an_expression(expression, names):
    assert names_of(expression) == names


@pytest.mark.parametrize("where, expressions", [("rules", rule_expressions), ("dashboard", dashboard_expressions)])
def test_every_expression_names_what_the_table_has(where, expressions):
    known = table()
    wrong = []
    for name, expression in expressions().items():
        assert names_of(expression), f"{name}: no series was found in {expression}"
        wrong += [f"{name}: there is no {series}" for series in names_of(expression)
                  if series not in known and series not in recorded() | {"up"}]
        for series, label, value in matchers_of(expression):
            if label not in ("job", "instance") and value not in known.get(series, {}).get(label, ()):
                wrong.append(f'{name}: {series} never has {label}="{value}"')
    assert not wrong, "\n".join(wrong)


def test_what_a_counter_is_asked_for_is_its_rate():
    """A counter by itself says when its process started, and nothing else."""
    counters = set(re.findall(r'^COUNTER\(\w+, "(\w+)"', (TOP / "src/metrics/metrics.def").read_text(), re.M))
    wrong = []
    for name, expression in {**rule_expressions(), **dashboard_expressions()}.items():
        bare = re.sub(r"\{[^}]*\}", "", expression)
        wrong += [name for series in names_of(expression) & counters
                  if not re.search(rf"(rate|increase|changes)\({series}\[", bare)]
    assert not wrong, wrong


def test_every_metric_is_on_the_dashboard():
    shown = set().union(*(names_of(expression) for expression in dashboard_expressions().values()))
    missing = {re.sub(r"_(sum|count|bucket)$", "", series) for series in table()} - \
              {re.sub(r"_(sum|count|bucket)$", "", series) for series in shown}
    assert not missing, f"nobody would see {sorted(missing)}: give them a panel in ops/dashboards/writ.json"


def test_the_dashboard_is_whole():
    board = dashboard()
    everything = list(panels(board["panels"]))
    assert len({panel["id"] for panel in everything}) == len(everything)
    taken = set()
    for panel in everything:
        place = panel["gridPos"]
        cells = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}
        assert place["x"] + place["w"] <= 24 and not cells & taken, f"{panel['title']} lies over another"
        taken |= cells
        if panel["type"] == "row":
            continue
        assert panel["title"] and panel["description"] and panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        refs = [target["refId"] for target in panel["targets"]]
        assert refs and len(refs) == len(set(refs)), panel["title"]
    variables = {variable["name"] for variable in board["templating"]["list"]}
    assert variables == {"datasource", "instance"}


# ---- promtool ----


def test_promtool_finds_nothing_wrong_with_the_rules():
    done = promtool("check", "rules", RULES)
    assert done.returncode == 0 and "SUCCESS" in done.stdout, done.stdout + done.stderr


def test_each_alert_fires_when_it_should_and_only_then():
    done = promtool("test", "rules", RULE_TESTS, cwd=FOLDER)
    assert done.returncode == 0 and "SUCCESS" in done.stdout, done.stdout + done.stderr


def test_the_example_configuration_is_right(tmp_path):
    shutil.copy(RULES, tmp_path)
    key = tmp_path / "metrics.key"
    key.write_text("wk_\n")
    (tmp_path / "prometheus.yaml").write_text((FOLDER / "prometheus.yaml").read_text().replace("/etc/writ/metrics.key", str(key)))
    done = promtool("check", "config", tmp_path / "prometheus.yaml")
    assert done.returncode == 0, done.stdout + done.stderr


# ---- the real thing ----


class Prometheus:
    """The real server, with the example configuration on our ports, looking each second."""

    def __init__(self, folder, stack, key):
        self.folder, self.port, self.process = folder, free_port(), None
        (folder / "metrics.key").write_text(key)
        shutil.copy(RULES, folder)
        config = (FOLDER / "prometheus.yaml").read_text()
        for old, new in [("/etc/writ/metrics.key", str(folder / "metrics.key")), ("127.0.0.1:8080", f"127.0.0.1:{stack.engine.port}"),
                         ("127.0.0.1:9090", f"127.0.0.1:{stack.platform.port}"), ("_interval: 15s", "_interval: 1s")]:
            assert old in config
            config = config.replace(old, new)
        (folder / "prometheus.yaml").write_text(config)

    def start(self):
        with open(self.folder / "prometheus.log", "w") as log:
            self.process = subprocess.Popen(
                [tool("prometheus"), f"--config.file={self.folder}/prometheus.yaml", f"--storage.tsdb.path={self.folder}/data",
                 f"--web.listen-address=127.0.0.1:{self.port}", "--log.level=warn"], stdout=log, stderr=log)
        eventually(self.is_ready, "Prometheus is ready")
        return self

    def is_ready(self):
        assert self.process.poll() is None, (self.folder / "prometheus.log").read_text()
        try:
            return urllib.request.urlopen(f"http://127.0.0.1:{self.port}/-/ready", timeout=5).status == 200
        except OSError:
            return False

    def get(self, path, **parameters):
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=PATIENCE) as reply:
                return json.load(reply)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{parameters}: {error.read().decode()}") from None

    def values(self, expression):
        """What an expression gives now, but for NaN."""
        result = self.get("query", query=expression)["result"]
        return [float(series["value"][1]) for series in result if series["value"][1] != "NaN"]

    def stop(self):
        if self.process:
            self.process.terminate()
            self.process.wait(PATIENCE)


def load(stack, ended):
    """A little of everything, until told to end."""
    with stack.at_engine() as engine, stack.at_platform() as platform:
        while not ended.is_set():
            for action in ("get_x", "get_y", "drop_all", "issue_refund"):
                assert engine.post("/v1/agent/authorize", {"action": action, "args": {"n": time.monotonic_ns() % 50}}).status == 200
            assert platform.get("/api/v1/audit?limit=5").status == 200
            ended.wait(0.02)


@pytest.fixture(scope="module")
def watched(tmp_path_factory):
    tool("prometheus")
    ended = threading.Event()
    with Stack(tmp_path_factory.mktemp("stack")) as stack:
        stack.policy("base", BASE)
        key = stack.key("watchers", ["metrics"], tenant="*")
        prometheus = Prometheus(tmp_path_factory.mktemp("prometheus"), stack, key)
        thread = threading.Thread(target=load, args=(stack, ended))
        thread.start()
        try:
            prometheus.start()
            yield stack, prometheus, lambda: (ended.set(), thread.join())
        finally:
            ended.set()
            thread.join()
            prometheus.stop()


def scrape(program, key):
    request = urllib.request.Request(f"{program.url}/metrics", headers={"Authorization": f"Bearer {key}"})
    with urllib.request.urlopen(request, timeout=PATIENCE) as reply:
        return reply.read().decode()


def test_the_programs_tell_exactly_what_the_table_has(watched):
    stack, *_ = watched
    told = set()
    for program in (stack.engine, stack.platform):
        text = scrape(program, stack.keys["admin"])
        done = promtool("check", "metrics", input=text)
        assert done.returncode == 0, done.stdout + done.stderr
        told |= set(re.findall(r"^(\w+)(?:\{.*\})? \S+$", text, re.M))
    assert told == set(table()), told ^ set(table())


def test_both_programs_are_scraped(watched):
    _, prometheus, _ = watched
    eventually(lambda: prometheus.values('up{job="writ-engine"}') == [1] == prometheus.values('up{job="writ-platform"}'), "both are up")


def test_every_query_of_the_dashboard_returns_data(watched):
    _, prometheus, _ = watched
    empty = {}

    def all_there():
        empty.clear()
        for name, expression in dashboard_expressions().items():
            without_fleet = "fleet_commit_seconds" in expression  # a quantile of nothing, NaN
            if not (prometheus.get("query", query=expression)["result"] if without_fleet else prometheus.values(expression)):
                empty[name] = expression
        return not empty
    try:
        eventually(all_there, "every query returns data")
    except AssertionError:
        raise AssertionError("no data: " + json.dumps(empty, indent=1)) from None
    annotation = dashboard()["annotations"]["list"][0]
    prometheus.get("query", query=filled(annotation["expr"]))


def test_rules_are_evaluated_and_nothing_is_alarmed(watched):
    _, prometheus, _ = watched

    def all_evaluated():
        groups = prometheus.get("rules")["groups"]
        rules = [rule for group in groups for rule in group["rules"]]
        return rules if rules and all(rule["health"] != "unknown" for rule in rules) else None
    rules = eventually(all_evaluated, "all rules were evaluated")
    assert {rule["name"] for rule in rules} == set(rule_expressions())
    assert not [(rule["name"], rule.get("lastError")) for rule in rules if rule["health"] != "ok"]
    alarmed = [(rule["name"], rule["state"]) for rule in rules if rule["type"] == "alerting" and rule["state"] == "firing"]
    assert not alarmed, alarmed


def test_each_recorded_series_is_there(watched):
    _, prometheus, _ = watched
    eventually(lambda: all(prometheus.values(name) for name in recorded()), "every recorded series has a value")


def test_a_stopped_platform_is_seen_as_the_alerts_expect(watched):
    """The last one: the platform dies, and the series that alerts look at say so."""
    stack, prometheus, end_load = watched
    eventually(lambda: prometheus.values('writ_engine_check_failing{check="feed"}') == [0], "all is well")
    end_load()
    stack.platform.kill()
    for expression in ('up{job="writ-platform"} == 0', "writ_engine_bundle_stale == 1", 'writ_engine_check_failing{check="feed"} == 1'):
        eventually(lambda: prometheus.values(expression), expression)
    eventually(lambda: {"WritPlatformDown", "WritPoliciesStale"} <=
               {alert["labels"]["alertname"] for alert in prometheus.get("alerts")["alerts"]}, "both alerts are pending")
    stack.platform.start()

"""The runbook, held to what it speaks of: each alert and each check of /healthz has a section, and what it names
(metrics, options, error codes, log events, commands) exists.
"""

import json
import re
import subprocess

from test_tidy import NAMES, TOP, WRIT, sources
from test_words import anchor

RUNBOOK = (TOP / "ops" / "runbook.md").read_text()
RULES = (TOP / "ops" / "dashboards" / "writ.rules.yaml").read_text()
ALERTS = re.findall(r"^\s*- alert: (\w+)$", RULES, re.M)
KINDS = set(json.loads((TOP / "schemas" / "event.schema.json").read_text())["properties"]["kind"]["enum"])
SOURCES = "\n".join(path.read_text() for path in sources(".c", ".h"))


def sections():
    """{heading: text} of every heading of the third level."""
    parts = re.split(r"^### (.+)$", RUNBOOK, flags=re.M)[1:]
    return dict(zip(parts[::2], [re.split(r"^(?:## |---)", text, flags=re.M)[0] for text in parts[1::2]]))


def checks():
    """The checks of both programs' /healthz, as their sources name them."""
    engine, platform = (re.findall(r'checks_put\(c, \w+, "(\w+)"', (TOP / "src" / path).read_text())
                        for path in ("engine/control/health.c", "platform/operations.c"))
    assert len(engine) >= 7 and {"kafka", "store"} <= set(platform), "the checks were not found in the sources"
    return [f"engine: {name}" for name in engine] + [f"platform: {name}" for name in platform]


def test_every_alert_has_a_section_and_every_section_an_alert():
    assert len(ALERTS) > 20 and len(ALERTS) == len(set(ALERTS))
    told = {heading for heading in sections() if heading.startswith("Writ")}
    assert told == set(ALERTS), f"without a section: {set(ALERTS) - told}; without an alert: {told - set(ALERTS)}"


def test_every_check_has_a_section_and_every_section_a_check():
    told = {heading for heading in sections() if ": " in heading}
    assert told == set(checks()), f"without a section: {set(checks()) - told}; without a check: {told - set(checks())}"


def test_every_check_has_its_gauge():
    table = (TOP / "src/metrics/metrics.def").read_text()
    for check in checks():
        program, name = check.split(": ")
        assert f'"writ_{program}_check_failing", "check=\\"{name}\\""' in table, f"{check} has no gauge"


def test_every_section_says_what_it_means_and_what_to_do():
    wrong = [heading for heading, text in sections().items()
             if "**Means.**" not in text or not re.search(r"\*\*(Do\.|Look, do)\*\*", text)]
    assert not wrong, wrong


def test_every_alert_names_its_section_and_how_bad_it_is():
    anchors = {anchor(heading) for heading in sections()}
    blocks = re.split(r"^\s*- alert: ", RULES, flags=re.M)[1:]
    for block in blocks:
        name = block.split("\n", 1)[0]
        url = re.search(r"runbook_url: (\S+)#(\S+)$", block, re.M)
        assert url and (TOP / url[1]).is_file(), f"{name} has no runbook_url that is a file here"
        assert url[2] == anchor(name) and url[2] in anchors, f"{name} leads to {url[2]}"
        assert re.search(r"severity: (critical|warning|info)\b", block), f"{name} has no severity"
        assert "summary:" in block and "description:" in block, f"{name} says nothing"


def test_every_alert_has_a_test_that_fires_and_one_that_does_not():
    text = (TOP / "ops" / "dashboards" / "writ.rules.test.yaml").read_text()
    tests = re.split(r"^  - name: ", text, flags=re.M)[1:]
    fires = {re.search(r"alertname: (\w+)", test)[1] for test in tests if "exp_labels" in test}
    quiet = {re.search(r"alertname: (\w+)", test)[1] for test in tests if "exp_alerts: []" in test}
    assert fires == quiet == set(ALERTS)


def test_the_alert_for_full_tables_knows_how_much_they_take():
    """Four fifths of the engine's own limits, which stand in base/limits.h."""
    limits = dict(re.findall(r"\b(LIMIT_\w+) = (\d+)[,\s]", (TOP / "src/base/limits.h").read_text()))
    expression = re.search(r"- alert: WritTablesFill\n\s*expr: (.+)", RULES)[1]
    bounds = dict(re.findall(r"(\w+) > (\d+)", expression))
    assert bounds == {"writ_engine_limit_counters": str(int(limits["LIMIT_COUNTERS"]) * 4 // 5),
                      "writ_engine_tokens": str(int(limits["LIMIT_TOKENS"]) * 4 // 5)}
    for name in ("LIMIT_COUNTERS", "LIMIT_TOKENS", "LIMIT_REVIEWS"):
        assert f"{int(limits[name]):,}" in RUNBOOK, f"{name} is another one in the runbook"


def test_what_it_names_exists():
    words = set(re.findall(r"`([^`\n]+)`", RUNBOOK)) | set(re.findall(r"\bwrit_\w+", RUNBOOK))
    metrics = {word.split("{")[0] for word in words if re.match(r"writ_\w+", word)}
    assert len(metrics) > 5
    assert metrics <= set(NAMES["metrics"]), metrics - set(NAMES["metrics"])
    options = {word for word in words if re.fullmatch(r"[a-z]+(\.[a-z_]+)+", word) and not word.startswith(("min.", "review."))} - KINDS
    assert len(options) > 5
    assert options <= set(NAMES["config"]), options - set(NAMES["config"])
    events = {word for word in words if re.fullmatch(r"[a-z]+(_[a-z]+)+", word)} - set(NAMES["errors"]) - set(NAMES["config"]) - metrics
    logged = set(re.findall(r'"([a-z]+(?:_[a-z]+)+)"', SOURCES))
    unknown = events - logged - {"max_uses", "fdatasync"}
    assert not unknown, f"neither a log event nor an error code: {unknown}"


def test_the_codes_that_it_tells_apart_are_ones_that_clients_see():
    told = (TOP / "schemas" / "errors.md").read_text()
    named = [code for heading in ("WritEngineErrors", "WritPlatformErrors")
             for code in re.findall(r"^\| `([a-z_]+)` \|", sections()[heading], re.M)]
    assert len(named) > 8
    assert not [code for code in named if f"| `{code}` |" not in told]


def test_the_commands_that_it_names_exist():
    help_text = subprocess.run([WRIT, "--help"], capture_output=True, text=True, check=True).stdout
    known = set(re.findall(r"^  ([a-z]+(?: [a-z-]+)?)  ", help_text, re.M))
    named = set(re.findall(r"(?:`|^    )writ ([a-z]+(?: [a-z-]+)?)", RUNBOOK, re.M))
    assert len(named) > 8
    wrong = {name for name in named if name not in known and name.split()[0] not in known}
    assert not wrong, wrong

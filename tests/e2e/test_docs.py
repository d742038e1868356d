"""README.md and the pages of docs/ are tests, too: pages.py says how a page is run.

ops/test runs the pages that a newcomer reads, on one ops/run, all pages that need no running program, and what others do
without one. WRIT_LONG=1 (`ops/test --long`) runs those others as a whole, each on an ops/run of its own.
"""

import json
import re
import subprocess

import pytest

import harness
import pages
from test_broken import TOLD
from test_run import Run

PATH = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
INSTALLED = f"{harness.BIN}:{PATH}"
PAGES = {page.name: page for page in pages.pages()}
FIRST = ["README.md", "docs/start.md", "docs/guides/review.md"]  # of one ops/run, in this order
ALONE = [name for name, page in PAGES.items() if page.is_run and not page.needs_server]
LONG = [name for name, page in PAGES.items() if page.is_run and page.needs_server and name not in FIRST]
REVIEW = PAGES["docs/guides/review.md"]
NODE = pages.node_version()


OFFLINE = re.compile(r"writ (policy (check|test)|cel|docs)\b.*|#.*|")


def is_offline(block):
    return block.language == "sh" and all(OFFLINE.fullmatch(line) for line in block.text.splitlines())


PARTLY = [name for name in LONG if any(is_offline(block) for block in PAGES[name].blocks)]


def needs_node(block):
    return NODE < 20 and re.search(r"\b(node|npm)\b|^(agent|gate)\b", block.text, re.M)


def reader(run, notes, path):
    return pages.Reader(run.data.parent, notes, path, run, omit=needs_node)


def started(folder):
    """ops/run, in a folder that looks like a clone."""
    folder.mkdir()
    return Run(pages.clone(folder) / "data")


@pytest.fixture(scope="module")
def newcomer(tmp_path_factory):
    """Reads the first pages, one after the other, and has nothing installed."""
    folder = tmp_path_factory.mktemp("pages")
    run = started(folder / "clone")
    yield reader(run, folder / "notes", PATH)
    assert run.stop() == 0


@pytest.fixture
def operator(tmp_path):
    """Reads one page, beside an ops/run of its own, and has writ installed."""
    run = started(tmp_path / "clone")
    yield reader(run, tmp_path / "notes", INSTALLED)
    assert run.stop() == 0


@pytest.fixture
def author(tmp_path):
    """Reads one page, with writ and without running programs."""
    (tmp_path / "clone").mkdir()
    return pages.Reader(pages.clone(tmp_path / "clone"), tmp_path / "notes", INSTALLED, omit=needs_node)


@pytest.mark.parametrize("name", [*FIRST, *ALONE, *(LONG if harness.LONG else [])])
def test_a_page_can_be_followed(request, name):
    who = "newcomer" if name in FIRST else "author" if name in ALONE else "operator"
    assert request.getfixturevalue(who).follow(PAGES[name])


@pytest.mark.parametrize("name", PARTLY)
def test_what_a_page_checks_without_a_server_is_so(author, name):
    """In the short run, too: that its policies are valid, and pass their tests."""
    author.omit = lambda block: not is_offline(block)
    assert author.follow(PAGES[name])


@pytest.mark.parametrize("text", [
    "```sh\necho one\n```\n\n```output\ntwo\n```\n",
    "```sh\necho '{\"a\": 1}'\n```\n\n```json\n{\"a\": 2}\n```\n",
    "```sh\nfalse\necho done\n```\n",
    "```sh\nno-such-program | cat\n```\n",
    "```sh fails\ntrue\n```\n",
    "```sh\na=1\n```\n\n```sh terminal-2\ntest $a = 1\n```\n",
    "```yaml other.yaml\na: 1\n```\n\n```sh\ncat one.yaml\n```\n",
])
def test_a_page_that_is_wrong_is_noticed(author, tmp_path, text):
    (tmp_path / "page.md").write_text(text)
    with pytest.raises(AssertionError):
        author.follow(pages.Page(tmp_path / "page.md"))


def test_a_page_that_is_right_is_followed(author, tmp_path):
    (tmp_path / "page.md").write_text("```yaml one.yaml\na: 1\n```\n\n```sh\nb=2\n```\n\n```sh\ncat one.yaml; echo $b x y\n```\n\n```output\na: 1\n2 … y\n```\n"
                                      "\n```sh\nprintf '%s\\n' 1 2 3\n```\n\n```output\n…\n3\n```\n"
                                      "\n```sh fails\nfalse\n```\n\n```console\nno-such-program\n```\n")
    assert [printed for _, printed in author.follow(pages.Page(tmp_path / "page.md"))] == ["", "a: 1\n2 x y\n", "1\n2\n3\n", ""]


def test_the_programs_in_javascript_are_run():
    assert any(needs_node for page in PAGES.values() for block in page.blocks if "node " in block.text)
    if NODE < 20:
        pytest.skip(f"SKIP: node is {NODE or 'missing'}; the client library needs 20: the programs in JavaScript were not run")


# ---- what pages.py cannot see by running ----


def test_no_command_stands_where_it_is_not_run():
    """In a fence of another language, or indented."""
    wrong = [f"{block}" for page in PAGES.values() for block in page.blocks if block.language not in pages.LANGUAGES]
    for page in PAGES.values():
        prose = pages.FENCE.sub("", page.text)
        wrong += [f"{page.name}: {line}" for line in re.findall(r"(?<=\n\n)    \S.*", prose)]
    assert not wrong, "\n".join(wrong)


def test_a_file_is_named_before_it_is_shown():
    wrong = []
    for page in PAGES.values():
        for name, block in page.files().items():
            before = page.text.split("\n")[:block.line - 1]
            if f"`{name}`" not in "\n".join(before[-6:]):
                wrong.append(f"{page.name}:{block.line}: {name}")
    assert not wrong, wrong


def test_commands_that_are_only_shown_exist():
    help_text = subprocess.run([harness.BIN / "writ", "--help"], capture_output=True, text=True, check=True).stdout
    known = set(re.findall(r"^  ([a-z]+(?: [a-z-]+)?)  ", help_text, re.M))
    wrong = []
    for page in PAGES.values():
        inline = re.findall(r"`writ ([a-z]+(?: [a-z][a-z-]*)?)", pages.FENCE.sub("", page.text))
        shown = re.findall(r"(?:^|[$ ])writ ([a-z]+(?: [a-z][a-z-]*)?)", "\n".join(page.of("console")), re.M)
        groups = {name.split()[0] for name in known if " " in name}
        wrong += [f"{page.name}: writ {name}" for name in inline + shown
                  if name not in known and name.split()[0] not in known - groups and not (name in groups)]
    assert known and not wrong, wrong


# ---- the example policy ----


def test_the_policy_that_is_shown_is_the_example_that_is_loaded():
    (shown,) = REVIEW.of("yaml")
    whole = (harness.TOP / "ops" / "examples" / "payments.yaml").read_text()
    assert whole.split("\n", 1)[1].startswith(shown + "tests:\n")


def test_each_rule_of_the_policy_is_shown_by_an_answer():
    (shown,) = REVIEW.of("yaml")
    answers = "\n".join(REVIEW.of("json"))
    missing = [rule for rule in re.findall(r"^  - id: (\S+)$", shown, re.M) if not re.search(rf'"[a-z]+:{rule}"', answers)]
    assert not missing, f"docs/guides/review.md shows no answer by {missing}"
    decisions = {answer["decision"] for text in REVIEW.of("json") for answer in [json.loads(text)] if "decision" in answer}
    assert decisions == {"allow", "deny", "human_review", "compute"}


def test_mistakes_in_the_policy_are_reported_in_the_words_that_are_shown():
    """Each is one of test_broken's, cut where it is long."""
    shown = [line for page in PAGES.values() for text in page.of("text") for line in text.splitlines() if line.startswith("payments.yaml:")]
    assert shown
    for line in shown:
        _, row, column, _, rest = line.split(":", 4)
        said = [f"{path}: {message}" if path else message for at, place, path, message in TOLD.values() if (at, place) == (int(row), int(column))]
        assert any(one.startswith(rest.strip().removesuffix(" …")) for one in said), line


def test_the_readme_names_the_two_commands():
    assert "ops/run" in PAGES["README.md"].text and "ops/test" in PAGES["README.md"].text

"""Documents, held to the programs and to the index: each page of docs/ is in docs/README.md, and options and metrics that a page
names exist. (test_words.py has links and language.)
"""

import re

from test_runbook import KINDS
from test_tidy import NAMES, TOP, rooms
from test_words import documents


def test_every_page_is_in_the_index():
    index = TOP / "docs" / "README.md"
    listed = {(index.parent / target).resolve() for target in re.findall(r"\]\(([^)#\s]+)", index.read_text())}
    missing = [str(path.relative_to(TOP)) for path in documents() if path.is_relative_to(index.parent) and path != index and path not in listed]
    assert len(listed) > 20 and not missing, f"docs/README.md does not list {missing}"


def test_options_and_metrics_that_documents_name_exist():
    """A page that is written by hand keeps the name of an option that was renamed."""
    options, metrics = set(NAMES["config"]), set(NAMES["metrics"])
    areas = {name.split(".")[0] for name in options if "." in name}
    files = re.compile(r"\.(md|sql|db|yaml|yml|conf|key|def|json|log|sock|ndjson|export|directory)$")
    wrong = []
    for path in documents():
        where, text = path.relative_to(TOP), path.read_text()
        if path.is_relative_to(TOP / "schemas") or path.name == "CHANGELOG.md":
            continue  # made by the programs; or of older names, too
        named = re.findall(r"`([a-z]+(?:\.[a-z_]+)+)(?: = [^`]*)?`", text) + re.findall(r"^([a-z]+(?:\.[a-z_]+)+) = ", text, re.M)
        named += re.findall(r"--([a-z]+(?:\.[a-z_]+)+)", text)
        wrong += [f"{where}: {name}" for name in named if name.split(".")[0] in areas and name not in options | KINDS and not files.search(name)]
        wrong += [f"{where}: {name}" for name in re.findall(r"\bwrit_(?:engine|platform)_\w+[a-z0-9]\b", text)
                  if name not in metrics and re.sub(r"_(bucket|sum|count)$", "", name) not in metrics]
    assert not wrong, "\n".join(wrong)


INTERNALS = sorted((TOP / "docs" / "internals").rglob("*.md"))
FILES_OF_DATA = {"engine/node"}  # in the directory of --data
PLACEHOLDER = re.compile(r"NAME|ROOM|\*")


def test_files_that_internals_name_exist():
    """A page about the code keeps the name of a file that was renamed."""
    folders = [TOP, TOP / "src"]
    wrong = []
    for path in INTERNALS:
        for name in re.findall(r"`([a-z_]+(?:/[A-Za-z_.*]+)+)`", path.read_text()):
            if not PLACEHOLDER.search(name) and not any((folder / name).exists() for folder in folders) and name not in FILES_OF_DATA:
                wrong.append(f"{path.relative_to(TOP)}: {name}")
    assert len(INTERNALS) > 20 and not wrong, "\n".join(wrong)


def test_the_table_of_rooms_is_that_of_the_build():
    """Folder and arrows of each room; every room may include base."""
    rows = re.findall(r"^\| `(\w+)` \| `([\w/]+)` \| [^|]* \| ?([\w ]*?) ?\|", (TOP / "docs" / "internals" / "architecture.md").read_text(), re.M)
    assert {room: (folder, set(includes.split())) for room, folder, includes in rows} == {
        room: (folder, includes - {"base"}) for room, (folder, includes) in rooms().items()}

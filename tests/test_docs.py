"""The pages in docs/: made by the program, and true of it."""

import importlib.util
import io
import os
import re
import tokenize
import tomllib
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[1] / "docs"


@pytest.fixture(scope="module")
def make():
    spec = importlib.util.spec_from_file_location("docs_make", DOCS / "make.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_reference_is_that_of_the_program(make):
    path = DOCS / "reference.md"
    if os.environ.get("REWRITE_GOLDEN"):
        path.write_text(make.reference(), encoding="utf-8")
    assert path.read_text(encoding="utf-8") == make.reference(), "run: python docs/make.py reference"


def test_each_example_has_the_verdict_of_its_name(make):
    for name, rule in make.EXAMPLES.items():
        text = (DOCS / "examples" / f"{name}.md").read_text(encoding="utf-8")
        assert f"**{name.upper()}:** " in text
        assert f"| {rule} |" in text
        assert f"fairaudit {' '.join(make.AUDIT)}" in text
        assert len(text.splitlines()) <= 200


def test_pages_link_to_what_exists():
    pages = [*DOCS.rglob("*.md"), DOCS.parent / "README.md"]
    links = [(page, link) for page in pages for link in re.findall(r"\]\(([^)#:]+)\)", page.read_text())]
    assert links
    for page, link in links:
        assert (page.parent / link).exists(), f"{page.name} links to {link}"


def test_no_page_names_this_machine():
    for page in DOCS.rglob("*.*"):
        if page.suffix in {".md", ".svg"}:
            assert not re.search(r"/(home|root|tmp|work)/", page.read_text(encoding="utf-8")), page.name


def sections(page):
    """Numbers of a page's sections, as its headings have them."""
    return set(re.findall(r"^##+ (\d+(?:\.\d+)*) ", (DOCS / page).read_text(encoding="utf-8"), re.MULTILINE))


def comments(source):
    """The comments and strings of a Python source, each on one line."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in (tokenize.COMMENT, tokenize.STRING):
            yield " ".join(token.string.split())


def ill_cited(source, known):
    """What a source cites in vain: a document that readers lack, or a section or rule that is in none."""
    for text in comments(source):
        if re.search(r"\bMETHODS\b", text):
            yield text
        for cited in re.findall(r"docs/methods\.md((?:,? \d+(?:\.\d+)*)*)", text):
            numbers = set(re.findall(r"\d+(?:\.\d+)*", cited))
            if not numbers or not numbers <= known:
                yield text
        for rule in re.findall(r"(?:rule|methods\.md 1\.3,) (R\d+)", text):
            if rule not in known:
                yield text


@pytest.fixture(scope="module")
def citable():
    rules = re.findall(r"^\| (R\d+) ", (DOCS / "methods.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert rules == [f"R{number}" for number in range(1, 13)]
    return sections("methods.md") | set(rules)


def test_every_section_that_the_source_cites_exists(citable):
    root, cited = DOCS.parent, 0
    for folder in ("fairaudit", "tests", "benchmarks"):
        for path in sorted((root / folder).rglob("*.py")):
            if path == Path(__file__):
                continue
            source = path.read_text(encoding="utf-8")
            assert list(ill_cited(source, citable)) == [], path.relative_to(root)
            cited += source.count("docs/methods.md")
    assert cited > 60


@pytest.mark.parametrize(
    "source",
    [
        "# METHODS 2.1",
        "# docs/methods.md 99.1",
        "# docs/methods.md 2.1, 99",
        "# docs/methods.md",
        '"""Clips (rule R99)."""',
        '"""As of docs/methods.md\n1.3, R13."""',
    ],
)
def test_a_citation_of_nothing_is_found(source, citable):
    assert list(ill_cited(f"{source}\n", citable))


def test_a_citation_of_a_section_is_accepted(citable):
    sound = "METHODS = 1  # docs/methods.md 2.1, 2.2; rule R7\n"
    assert list(ill_cited(sound, citable)) == []


def test_sections_that_a_page_on_methods_names_exist(citable):
    text = (DOCS / "methods.md").read_text(encoding="utf-8")
    named = re.findall(r"\b[Ss]ections? (\d+(?:\.\d+)*)", text)
    named += re.findall(r"\((\d+\.\d+)(?:, (\d+\.\d+))?\) \|$", text, re.MULTILINE)
    numbers = {n for found in named for n in ([found] if isinstance(found, str) else found) if n}
    assert len(numbers) > 10
    assert numbers <= citable


def test_the_rooms_that_the_page_on_architecture_names_are_those_that_are_checked():
    text = (DOCS / "architecture.md").read_text(encoding="utf-8")
    table = text.split("| room | what is in it |")[1].split("\n\n")[0]
    rows = [re.findall(r"`(\w+)`", row.split("|")[1]) for row in table.splitlines() if "`" in row]
    settings = tomllib.loads((DOCS.parent / "pyproject.toml").read_text(encoding="utf-8"))["tool"][
        "importlinter"
    ]
    (rooms,) = [contract for contract in settings["contracts"] if contract["type"] == "layers"]
    assert [name for row in rows for name in row] == [
        name for layer in rooms["layers"] for name in layer.split(" | ")
    ]


def test_files_that_the_page_on_architecture_names_exist():
    text = (DOCS / "architecture.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:\w+/)*\w+\.py|(?:cli|methods|tests)/\w+/)`", text))
    assert len(named) > 30
    for name in named:
        base = DOCS.parent if name.startswith("tests/") else DOCS.parent / "fairaudit"
        assert (base / name).exists(), name


def installs():
    """What each page tells pip to install, one requirement after the other."""
    root = DOCS.parent
    pages = [*DOCS.rglob("*.md"), *root.glob("*.md"), *root.glob(".pre-commit*.yaml")]
    for page in pages:
        if page.name == "CHANGELOG.md":
            continue
        for line in page.read_text(encoding="utf-8").splitlines():
            for found in re.findall(r"pip install ((?:-\S+ )*)(\"[^\"]+\"|'[^']+'|[^\s`&;)]+)", line):
                yield page.name, found[1].strip("\"'")


def test_pages_install_this_project_and_never_what_is_called_like_its_package():
    project = tomllib.loads((DOCS.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["name"] not in {"fairaudit", "fair-audit"}
    assert "fairaudit" in project["scripts"]
    found = list(installs())
    assert {page for page, _ in found} >= {"README.md", "ci.md", "cluster.md"}
    for page, wanted in found:
        is_checkout = re.fullmatch(r"\.(\[\w+\])?", wanted)
        is_repository = re.fullmatch(re.escape(project["name"]) + r" @ git\+https://\S+@v[\d.]+", wanted)
        assert is_checkout or is_repository, f"{page} installs {wanted}"


def test_what_an_error_says_to_install_is_what_the_project_declares():
    project = tomllib.loads((DOCS.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    cluster = (DOCS.parent / "fairaudit" / "execution" / "ray_cluster.py").read_text(encoding="utf-8")
    assert re.findall(r"pip install '([^']+)'", cluster) == project["optional-dependencies"]["ray"]

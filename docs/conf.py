"""The site: ``python -m sphinx -W docs OUT``.

Pages that live elsewhere in the repository (those of the simulations, the changelog) are copied to
``docs/repository``, at the same path, when the site is built. So are pages of the reference: each
class and function has one, and the page of its module lists them. Links are written for the
repository's browser; here those that leave ``docs`` are turned to the page on the site.
"""

import importlib.metadata
import inspect
import json
import re
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.util import logging

logger = logging.getLogger(__name__)
ROOT = Path(__file__).resolve().parents[1]
COPIES = "repository"
# A module of which all members are shown, with a page for each.
MODULE = re.compile(
    r"^\.\. automodule:: (\S+)\n(   :no-imported-members:\n)?(?!   :)", re.MULTILINE
)
# The question that a page answers describes it to search engines, without marks and links.
OPENING = re.compile(r"# [^\n]+\n\n(?:```\{eval-rst\}.*?```\n\n)?(\w[^?]*\?)", re.DOTALL)
MARKUP = re.compile(r"\[([^]]*)\]\([^)]*\)|[`*]")
PAGE = re.compile(r"(?:``)?docs/([a-z-]+)\.md(?:``)?")  # in docstrings
LINK = re.compile(r"(?<=\]\()(?!\w+:)([^)\s#]+)(#[^)\s]*)?(?=\))")

#: Files that a page has in place of comments with their names.
EMBEDDED = {
    "explorer": ["docs/figures/explorer.json"],
    "one-report": ["packaging/npm/client.js", "docs/figures/one-report.js"],
}

#: Words by which a newcomer searches, for the page that answers: entries of the site's index.
SEARCHED = {
    "analytics": "federated analytics; private mean; private median; private quantiles; A/B test;"
    " private histogram; private counts; differentially private statistics; correlation;"
    " average; average salary; average by group; group by; median; median salary; percentile;"
    " p-value; churn rate; treatment effect; average treatment effect; correlation matrix",
    "your-own-data": "pandas; DataFrame; CSV; local differential privacy python; scikit-learn;"
    " private regression; private classification; logistic regression; polars; DuckDB;"
    " Hugging Face; flwr-datasets; CSV file; missing values; outliers; data frame",
    "flower-app": "flwr new; Flower Hub; quickstart; ClientApp; ServerApp",
    "planning": "how many users; how many users do I need; sample size; number of users; power;"
    " noise too large; too much noise",
    "concepts": "what is epsilon; local differential privacy; randomized response; privacy budget",
    "explorer": "choose epsilon; which epsilon",
    "one-report": "npm; browser; what is sent; javascript client",
    "noise": "trusted node; central differential privacy; discrete Gaussian; hospitals;"
    " distributed differential privacy; patient survival hospitals",
    "secure-sums": "secure aggregation; SecAgg; secure sum",
    "model-updates": "federated learning; private federated learning; federated averaging;"
    " Flower app; flower strategy; DP-FedAvg; LocalDpMod; Keras; TensorFlow; neural network",
    "silos": "DP-SGD; Opacus; cross-silo; PyTorch",
    "models-as-data": "export a network; torch.export; MONAI",
    "heavy-hitters": "most frequent items; frequency estimation; top k; top k words;"
    " frequent words",
    "recurring": "every week; longitudinal; RAPPOR; monitoring; memoization",
    "recipes": "funnel; retention; conversion",
    "which-method": "compare methods; central or local; accuracy of local differential privacy;"
    " random forest; shuffle model; gradient boosting",
    "threat-model": "malicious server; poisoning; attack; GDPR; membership inference; attacker",
    "accounting": "privacy accountant; composition; audit; delta; budget exhausted;"
    " privacy budget exhausted; epsilon spent",
    "deployment": "deploy; production; SuperNode; SuperLink; ledger; policy; Docker;"
    " docker compose; Kubernetes; install",
    "approved-studies": "ethics board; approval; governance; consent",
    "scale": "million users; Ray; cluster; memory; speed",
    "randomizers": "Laplace; Laplace noise; Gaussian mechanism; variance; mechanisms",
    "wire-format": "JavaScript; other languages; protocol buffers; Android;"
    " android app; iPhone; iOS; phone",
    "gallery": "notebooks; examples",
    "monitoring": "Prometheus; OpenTelemetry; Grafana; MLflow; Weights & Biases; TensorBoard;"
    " callbacks; metrics",
    "migration": "upgrade; renamed; deprecated; old names",
    "command-line": "commands; CLI; shell completion",
    "coverage": "confidence intervals; confidence interval; standard errors; standard deviation;"
    " coverage; error bars; error bars and confidence intervals",
    "add-a-protocol": "extend; own protocol; own statistic; contribute",
}

_about = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]

project = _about["name"]
release = importlib.metadata.version(project)
language = "en"
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["node", "figures", "upstream"]
myst_heading_anchors = 4  # as the repository's browser has them
nb_execution_mode = "off"  # tests/test_notebooks.py runs notebooks and compares what they keep

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # docstrings say types, with shapes
autodoc_default_options = {
    "members": True,
    "imported-members": True,
    "show-inheritance": True,
    # made by scikit-learn, about its own pages; what our own pages say in sentences
    "exclude-members": "set_fit_request, set_score_request, plans_with, guarantee, card",
}
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False
napoleon_custom_sections = ["Guarantee"]
# Words of shapes, as in "array (dim,)", are also attributes of several classes.
suppress_warnings = ["ref.python"]

html_theme = "furo"
html_title = f"{project} {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_favicon = "_static/favicon.svg"
html_copy_source = False


def _copied() -> Iterator[Path]:
    """Yield the pages that lie outside ``docs``, relative to the repository's root."""
    yield from (page.relative_to(ROOT) for page in ROOT.glob("*.md") if page.stem != "README")
    yield Path("packaging/npm/README.md")
    for page in sorted((ROOT / "simulations").rglob("*.md")):
        if "results" not in page.parts:
            yield page.relative_to(ROOT)


def _copy(app: Sphinx) -> None:
    folder = ROOT / "docs" / COPIES
    shutil.rmtree(folder, ignore_errors=True)
    for page in _copied():
        (folder / page).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / page, folder / page)


def _members(module: str, own: bool) -> dict[str, Any]:
    """Return a module's classes and functions by name; with ``own`` those defined there."""
    found = importlib.import_module(module)
    names = getattr(found, "__all__", None) or [n for n in vars(found) if not n.startswith("_")]
    members = {f"{module}.{name}": getattr(found, name) for name in names}
    return {
        name: member
        for name, member in members.items()
        if callable(member) and not (own and getattr(member, "__module__", module) != module)
    }


def _page(name: str, member: Any) -> str:
    """Return the page of a class or a function, with the parameters that a class inherits."""
    title = f"# {name.rpartition('.')[2]}"
    if not inspect.isclass(member):
        return f"{title}\n\n```{{eval-rst}}\n.. autofunction:: {name}\n```\n"
    kind = "exception" if issubclass(member, BaseException) else "class"
    text = f"{title}\n\n```{{eval-rst}}\n.. auto{kind}:: {name}\n```\n"
    for base in member.__mro__[1:]:
        if base.__module__.startswith("ldp_flower") and "Parameters\n" in (base.__doc__ or ""):
            text += f"\n## As every {base.__name__}\n\n```{{eval-rst}}\n"
            text += f".. autoclass:: {base.__module__}.{base.__name__}\n"
            text += "   :no-members:\n   :no-index:\n```\n"
    return text


def _write_members(app: Sphinx) -> None:
    """Write a page for each member of the modules that the reference shows in full."""
    folder = ROOT / "docs" / COPIES / "reference"
    folder.mkdir(parents=True)
    for page in (ROOT / "docs" / "reference").glob("*.md"):
        for module, own in MODULE.findall(page.read_text("utf-8")):
            for name, member in _members(module, bool(own)).items():
                (folder / f"{name}.md").write_text(_page(name, member), "utf-8")


def _list_members(module: re.Match[str]) -> str:
    members = _members(module[1], bool(module[2]))
    rows = "\n".join(
        f"   * - :doc:`{name.rpartition('.')[2]} </{COPIES}/reference/{name}>`\n"
        f"     - {(inspect.getdoc(member) or '').splitlines()[0]}"
        for name, member in members.items()
    )
    pages = "\n".join(f"   /{COPIES}/reference/{name}" for name in members)
    return (
        f"{module[0].rstrip()}\n   :no-members:\n\n.. list-table::\n\n{rows}\n\n"
        f".. toctree::\n   :hidden:\n\n{pages}\n"
    )


def _on_site(target: Path) -> str:
    """Return the link to a file or folder of the repository, from the top of the site."""
    if target.is_relative_to(ROOT / "docs"):
        return f"/{target.relative_to(ROOT / 'docs')}"
    while target.is_dir():
        target = target / "README.md" if (target / "README.md").exists() else target.parent
    inside = target.relative_to(ROOT)
    if inside in set(_copied()):
        return f"/{COPIES}/{inside}"
    return "/index.md" if inside == Path("README.md") else f"/../{inside}"


def _turn_links(app: Sphinx, docname: str, source: list[str]) -> None:
    if app.env.doc2path(docname).suffix == ".ipynb":
        return  # notebooks have whole addresses, since they are read elsewhere, too
    inside = Path(docname)
    folder = ROOT / ("" if inside.parts[0] == COPIES else "docs")
    if inside.parts[0] == COPIES:
        inside = inside.relative_to(COPIES)
    if docname == "index":
        readme = _with_links(ROOT, (ROOT / "README.md").read_text("utf-8"))
        source[0] = source[0].replace("<!-- README.md -->", readme)
        app.env.note_dependency(str(ROOT / "README.md"))
    if docname == f"{COPIES}/simulations/README":
        below = [
            f"/{COPIES}/{page}"
            for page in _copied()
            if page.parts[0] == "simulations" and len(page.parts) > 2
        ]
        source[0] += "\n```{toctree}\n:hidden:\n\n" + "\n".join(below) + "\n```\n"
    if inside.name == "CHANGELOG":
        source[0] = f"---\nnosearch: true\n---\n{source[0]}"
    elif words := SEARCHED.get(docname):
        entries = "".join(f"   ! single: {word.strip()}\n" for word in words.split(";"))
        title, rest = source[0].split("\n", 1)
        source[0] = f"{title}\n\n```{{eval-rst}}\n.. index::\n{entries}```\n{rest}"
    if inside.parts[0] == "reference":
        source[0] = MODULE.sub(_list_members, source[0])
    if inside.name == "table":  # what a study writes has no title
        source[0] = f"# The table of {inside.parent.parent}\n\n{source[0]}"
    source[0] = _with_links((folder / inside).parent, source[0])
    for path in (ROOT / name for name in EMBEDDED.get(docname, ())):
        source[0] = source[0].replace(f"<!-- {path.name} -->", path.read_text("utf-8").strip())
        app.env.note_dependency(str(path))
    if described := OPENING.match(source[0]):
        text = json.dumps(" ".join(MARKUP.sub(r"\1", described[1]).split()))
        source[0] = f"---\nmyst:\n  html_meta:\n    description: {text}\n---\n{source[0]}"


def _with_links(folder: Path, text: str) -> str:
    def turned(link: re.Match[str]) -> str:
        if link[1].startswith("/"):
            return link[0]
        target = (folder / link[1]).resolve()
        if not target.exists():
            logger.warning("%s does not exist", target, type="link")
            return link[0]
        return _on_site(target) + (link[2] or "")

    return LINK.sub(turned, text)


def _link_pages(
    app: Sphinx, what: str, name: str, documented: object, options: object, lines: list[str]
) -> None:
    """Turn pages that docstrings name by their file into links."""
    lines[:] = [PAGE.sub(r":doc:`/\1`", line) for line in lines]


def setup(app: Sphinx) -> None:
    """Connect what is above to Sphinx."""
    app.connect("autodoc-process-docstring", _link_pages)
    app.connect("builder-inited", _copy)
    app.connect("builder-inited", _write_members)
    app.connect("source-read", _turn_links)

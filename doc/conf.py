# ruff: noqa: INP001 - Sphinx reads it, nothing imports it
"""Sphinx builds the documentation as a site from the pages of this folder: `bin/docs`."""

from __future__ import annotations

import re
import sys
import tempfile
from html import escape
from pathlib import Path
from typing import Any

import longshore

project = "Longshore"
author = "The developers of Longshore"
version = release = longshore.__version__
# No year and no time of the build: equal pages give equal files.
html_last_updated_fmt = None
html_show_copyright = False

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
exclude_patterns = ["examples/*/longshore_*", "examples/**/tests"]
myst_heading_anchors = 4
# The notebook is run by the build, in a folder of its own: what it shows is of a real run.
nb_execution_mode = "force"
nb_execution_in_temp = True
nb_execution_timeout = 240
nb_execution_raise_on_error = True
myst_links_external_new_tab = False
autodoc_typehints = "description"
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
add_module_names = False
napoleon_google_docstring = False
copybutton_prompt_text = "$ "

html_static_path = ["style"]
html_css_files = ["longshore.css"]
html_theme = "furo"
html_title = "Longshore"
html_theme_options = {"navigation_with_keys": True}

_SECTIONS = {
    "Start here": "tutorial",
    "Examples": "examples",
    "How do I": "how-to",
    "Reference": "reference",
    "Why": "explanation",
    "Decisions": "decisions",
}
_ROOT = Path(__file__).resolve().parent.parent
_NAMED_BLOCK = re.compile(r"^```(\w+) file=(\S+)$", re.MULTILINE)
_RECORDING = re.compile(r"^<!-- recording (\S+): (.+) -->$", re.MULTILINE)


def _link_to_repository(app: Any, docname: str, source: list[str]) -> None:
    """Turn links to files outside of the documentation into plain names: the site has no such files."""
    folder = (Path(app.srcdir) / docname).parent
    text = source[0]
    start = 0
    while (middle := text.find("](", start)) >= 0:
        end = text.find(")", middle)
        target = text[middle + 2 : end]
        start = middle + 2
        if "://" in target or target.startswith(("#", "mailto:")):
            continue
        path = (folder / target.partition("#")[0]).resolve()
        is_page = path.suffix in {".ipynb", ".md", ".png", ".svg"} and path.is_relative_to(app.srcdir) and path.exists()
        if is_page:
            continue
        begin = text.rfind("[", 0, middle)
        words = text[begin + 1 : middle]
        shown = words if not path.is_relative_to(_ROOT) else f"{words} (`{path.relative_to(_ROOT)}`)"
        text = text[:begin] + shown + text[end + 1 :]
        start = begin + len(shown)
    source[0] = text


def _add_navigation(app: Any, docname: str, source: list[str]) -> None:
    """Add the navigation to the first page: its links in their order, then the pages that it does not name."""
    if docname != "index":
        return
    named = [name for name in re.findall(r"\]\(([^)#:]+)\.md\)", source[0]) if name in app.env.found_docs]
    found = list(dict.fromkeys([*named, *sorted(app.env.found_docs - {"index"})]))
    blocks = [source[0]]
    for caption, folder in _SECTIONS.items():
        pages = [name for name in found if name.startswith(f"{folder}/")]
        blocks.append("\n".join(["", f"```{{toctree}}\n:hidden:\n:caption: {caption}", *pages, "```", ""]))
    source[0] = "\n".join(blocks)


def _record_runs(app: Any) -> None:
    """Run what the pages show, and keep its pictures for them: none is older than the site."""
    if app.builder.format != "html":
        return
    sys.path.insert(0, str(_ROOT))
    from tests.recordings.runs import record_all

    folder = Path(app.doctreedir) / "recorded"
    with tempfile.TemporaryDirectory(prefix="longshore-") as work:
        record_all(folder / "recordings", Path(work))
    app.config.html_static_path.append(str(folder))


def _show_recordings(_: Any, docname: str, source: list[str]) -> None:
    """Put the recordings where a page has a comment for one: `<!-- recording NAME: WORDS -->`."""
    above = "../" * docname.count("/")

    def show(found: re.Match[str]) -> str:
        address, words = f"{above}_static/recordings/{found[1]}", escape(found[2])
        if found[1].endswith(".svg"):
            return f'<div class="recording"><img src="{address}" alt="{words}"></div>'
        frame = f'<iframe class="recording" src="{address}" title="{words}" loading="lazy"></iframe>'
        return f'{frame}\n<p class="recording"><a href="{address}">Open it in a window of its own</a></p>'

    source[0] = _RECORDING.sub(show, source[0])


def _show_file_names(_: Any, __: str, source: list[str]) -> None:
    """Give a block of code the name of its file as a caption: a page may have several, and commands name them."""
    source[0] = _NAMED_BLOCK.sub(r"```{code-block} \1\n:caption: \2\n", source[0])


def _find_outdated(app: Any, *_: Any) -> list[str]:
    """Name the pages that each build reads anew.

    The first page has the navigation to all others. What notebooks show depends on the package.
    """
    notebooks = [name for name in app.env.found_docs if Path(app.env.doc2path(name)).suffix == ".ipynb"]
    return ["index", *notebooks]


def setup(app: Any) -> None:
    """Register what the pages need."""
    app.connect("env-get-outdated", _find_outdated)
    app.connect("builder-inited", _record_runs)
    app.connect("source-read", _show_recordings)
    app.connect("source-read", _add_navigation)
    app.connect("source-read", _link_to_repository)
    app.connect("source-read", _show_file_names)

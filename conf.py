# SPDX-License-Identifier: GPL-2.0-or-later
"""Sphinx configuration of the one site: documentation (docs/) and Technical Proposal (spec/).

`make docs` builds it with the steps of docs/nvmptcp_docs/build.py. The root of the checkout is the
source directory, so that pages can include what stands beside the code.
"""

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent
sys.path[:0] = [str(ROOT / "docs"), str(ROOT / "spec"), str(ROOT / "kernel-impl"),
                str(ROOT / "conformance"), str(ROOT / "model")]

with (ROOT / "pyproject.toml").open("rb") as file:
    release = tomllib.load(file)["project"]["version"]

project = "NVMe/TCP over Multipath TCP"
author = "The editors"
copyright = "the authors, CC-BY-4.0"
version = release
language = "en_GB"

root_doc = "docs/index"
source_suffix = {".rst": "restructuredtext", ".md": "markdown"}
include_patterns = ["docs/**.rst", "docs/**.md", "spec/*.rst", "kernel-impl/RESULTS.md",
                    "model/doc/nvme-mptcp.rst", "kernel-impl/series/0000-cover-letter.md"]
# Not only no pages: directories that Sphinx needn't walk through.
exclude_patterns = [".*", "**/.*", "build", "dist", "reproduce-out", "tools", "conformance",
                    "spec/nvmptcp_spec", "spec/tests", "docs/nvmptcp_docs", "docs/tests",
                    "**/__pycache__", "*.egg-info", "kernel-impl/nvmptcp_lab", "kernel-impl/tests"]

extensions = [
    "myst_parser",
    "sphinx_argparse_cli",
    "sphinx_copybutton",
    "sphinxcontrib.plantuml",
    "sphinxcontrib.rsvgconverter",
    "sphinxcontrib.spelling",
    "nvmptcp_docs.clause_numbers",
    "nvmptcp_docs.results_figure",
    "nvmptcp_docs.scenario_format",
    "nvmptcp_docs.single_page",
    "nvmptcp_spec",
]

nitpicky = True
numfig = True
numfig_secnum_depth = 0
numfig_format = {"figure": "Figure %s", "table": "Table %s", "code-block": "Listing %s",
                 "section": "clause %s"}
smartquotes = True
myst_heading_anchors = 3
myst_enable_extensions = ["attrs_inline", "colon_fence"]

# Diagrams: SVG for the browser, PDF made of it for LaTeX, PNG for Word.
plantuml = f"plantuml -config {ROOT / 'docs' / 'diagrams.puml'}"
plantuml_output_format = "svg_img"
plantuml_latex_output_format = "svg_pdf"
plantuml_batch_size = 50
plantuml_cache_path = "../diagrams"
rsvg_converter_args = ["--zoom=0.75"]  # to the size of the PDF's text

spelling_lang = "en_GB"
spelling_word_list_filename = ["docs/wordlist.txt"]
spelling_warning = True
spelling_ignore_contributor_names = False  # the same result in a checkout and in an archive
# Generated, or with a form of its own.
spelling_exclude_patterns = ["kernel-impl/RESULTS*", "kernel-impl/series/*",
                             "docs/reference/nvmptcp-*", "docs/reference/traceability*",
                             "model/doc/*"]

# --- HTML ----------------------------------------------------------------------------------------

html_theme = "furo"
html_title = "NVMe/TCP over MPTCP"
html_static_path = ["docs/_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
# The site's address is its top: `index.html` there leads to the landing page.
html_additional_pages = {"index": "top.html"}
templates_path = ["docs/_templates"]
html_theme_options = {"navigation_with_keys": True}
copybutton_prompt_text = "$ "  # only commands are copied, not what they print
copybutton_line_continuation_character = "\\"

# --- the Technical Proposal as PDF ----------------------------------------------------------------

TP_TITLE = "Multipath TCP variant of the NVMe TCP transport"
TP_NAME = "nvmptcp-tp"
# The last commit's; none where there is no git.
DATE = subprocess.run("git log -1 --format=%cs 2>/dev/null", shell=True, cwd=ROOT,
                      stdout=subprocess.PIPE, text=True, check=False).stdout.strip()
latex_engine = "lualatex"
latex_documents = [("spec/index", f"{TP_NAME}.tex", TP_TITLE, author, "howto")]
latex_use_xindy = False
latex_toplevel_sectioning = "section"
latex_show_pagerefs = False
latex_show_urls = "no"
latex_table_style = ["booktabs"]
latex_use_latex_multicolumn = True
latex_additional_files = ["docs/latex/nvmptcp-tp.sty"]
latex_elements = {
    "papersize": "a4paper",
    "pointsize": "10pt",
    "fontpkg": "",  # the style sets the fonts
    "polyglossia": "",
    "babel": r"\usepackage[british]{babel}",
    "preamble": r"\usepackage{nvmptcp-tp}\AtBeginDocument{\date{" + DATE + "}}",
    "makeindex": "",
    "printindex": "",
    "figure_align": "H",  # a figure stays with its text
    "releasename": "Revision",
    "sphinxsetup": "hmargin={25mm,25mm}, vmargin={28mm,25mm}, TitleColor={black},"
                   " InnerLinkColor={rgb}{0.07,0.23,0.45}, OuterLinkColor={rgb}{0.07,0.23,0.45},"
                   " verbatimwithframe=false, VerbatimColor={gray}{0.96}",
}

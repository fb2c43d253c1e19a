"""Sphinx configuration: pages in Markdown, the reference from the docstrings. `make docs` builds the site."""

import pymcboost

project = "pymcboost"
author = "pymcboost contributors"
version = release = pymcboost.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "numpydoc"]
myst_heading_anchors = 4
exclude_patterns = ["_build"]

default_role = "py:obj"
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False

html_theme = "furo"
html_title = "pymcboost"
html_show_copyright = False
html_show_sourcelink = False

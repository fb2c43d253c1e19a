"""Sphinx configuration: pages in Markdown, the reference from the docstrings. `make docs` builds the site."""

import re

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


def escape_shapes(app, what, name, obj, options, lines):
    """Keep ``(n_features_in_,)`` from being read as a link: a trailing underscore makes one in reStructuredText."""
    lines[:] = [re.sub(r"\b(n_features_in|n_classes)_(?=[,)])", r"\1\\_", line) for line in lines]


def setup(app):
    """Called by Sphinx."""
    app.connect("autodoc-process-docstring", escape_shapes)

"""Sphinx configuration: pages in Markdown, the API reference from the docstrings. `make docs` builds the site."""

import os
import re

from sphinx.util.nodes import make_refnode

import pymcboost
from pymcboost import dask
from pymcboost.registry import ALGORITHMS

project = "pymcboost"
author = "pymcboost contributors"
version = release = pymcboost.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence", "substitution"]
# Where the source is; docs/releasing.md sets it.
repository = os.environ.get("PYMCBOOST_URL")
about = [f"Version {release}", "[changes](changelog.md)", "BSD-3-Clause licence"]
if repository:
    about.insert(1, f"[source code]({repository})")
myst_substitutions = {"version_line": " · ".join(about)}
exclude_patterns = ["_build", "_templates", "gallery"]
templates_path = ["_templates"]
sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "auto_gallery",
    "download_all_examples": False,
    "show_memory": False,
    "write_computation_times": False,
}

default_role = "py:obj"
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
# Long signatures have a line for each parameter.
python_maximum_signature_line_length = 100

html_theme = "furo"
html_title = "pymcboost"
html_static_path = ["_static"]
html_css_files = ["narrow.css"]
html_show_copyright = False
html_show_sourcelink = False

# docs/reference.md lists what is documented; each name gets a page in docs/api, made from docs/_templates.
SHARED = "pymcboost.training.estimator.EnsembleClassifier"
METHODS = (
    "fit predict predict_proba predict_log_proba predict_top decision_function staged_predict staged_predict_proba "
    "staged_decision_function calibrate_on refit_leaves apply decision_path save layouts"
).split()
ESTIMATORS = [f"pymcboost.{entry.name}" for entry in ALGORITHMS.values()]
autosummary_context = {
    "estimators": [name for name in ESTIMATORS if "HingeBoost" not in name],
    "shared": SHARED,
    "shared_methods": METHODS,
    "members": {
        SHARED: ", ".join(METHODS),
        "pymcboost.HingeBoostOCClassifier": "fit, predict_proba, predict_log_proba",
        "pymcboost.Model": "",
        "pymcboost.Dataset": "from_blocks, subset",
        "pymcboost.Checkpoint": "fit, remove",
        "pymcboost.training.loop.TrainingState": "n_rounds, gain, metrics, model",
        "pymcboost.training.callbacks.Callback": (
            "begin, take_in, resume, before_training, measure, after_round, after_training, close"
        ),
        "pymcboost.inspection.Curve": "at",
        "pymcboost.comm.Alone": "",
        f"{dask.__name__}.{dask.__all__[0]}": "",
    },
    "inherited": {SHARED: "", "pymcboost.Model": ""},
    # Only the package calls their constructors: the pages show no parameters.
    "made_inside": [SHARED, "pymcboost.Model", "pymcboost.training.loop.TrainingState"],
}


def escape_shapes(app, what, name, obj, options, lines):
    """Keep ``(n_features_in_,)`` from being read as a link: a trailing underscore makes one in reStructuredText."""
    lines[:] = [
        line if ">>> " in line else re.sub(r"\b(n_features_in|n_classes)_(?=[,)])", r"\1\\_", line)
        for line in lines
    ]


def find_short_name(app, env, node, contnode):
    """Link `Model.save` and `fit` from the pages of other modules and classes: docstrings leave out the module."""
    if node.get("refdomain") != "py":
        return None
    objects, target = env.get_domain("py").objects, node["reftarget"]
    names = [
        name for name, entry in objects.items() if name.endswith(f".{target}") and not entry.aliased
    ]
    owner, _, method = target.rpartition(".")
    if len(names) != 1 and (not owner or f"pymcboost.{owner}" in ESTIMATORS):
        names = [name for name in (f"{SHARED}.{method}",) if name in objects]
    if len(names) != 1:
        return None
    found = objects[names[0]]
    return make_refnode(
        app.builder, node["refdoc"], found.docname, found.node_id, contnode, names[0]
    )


def setup(app):
    """Called by Sphinx."""
    app.connect("autodoc-process-docstring", escape_shapes)
    app.connect("missing-reference", find_short_name)

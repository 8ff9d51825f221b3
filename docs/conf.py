"""How Sphinx builds the documentation: ``make docs``."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
# The package of this checkout, and the extension site_parts.
sys.path[:0] = [str(HERE.parent), str(HERE)]

import slce_xp  # noqa: E402

project = "slce_xp"
author = "The slce_xp developers"
project_copyright = author
version = release = slce_xp.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "site_parts",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "examples"]
templates_path = ["_templates"]
nitpicky = True
smartquotes = False  # "positive" is a value, to be typed as it stands

# Docstrings: numpydoc's sections state the types, so signatures need not.
autodoc_typehints = "none"
autodoc_member_order = "bysource"
autosummary_filename_map = {"slce_xp.Plan": "slce_xp.Plan-class"}  # not slce_xp.plan on a Mac
numpydoc_show_class_members = False  # the pages of classes have all members on them
default_role = "code"  # `X` in a docstring

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3

# Built without a network: equations are MathML, and nothing is fetched from other sites.
html_math_renderer = "mathml"
html_theme = "furo"
html_title = f"slce_xp {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
pygments_style = "friendly"

sphinx_gallery_conf = {
    "examples_dirs": "examples",
    "gallery_dirs": "gallery",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_signature": False,
    "capture_repr": (),  # what is printed, not what a plotting function returns
    "min_reported_time": 10**6,  # seconds: never show how long a page took
    "write_computation_times": False,
}

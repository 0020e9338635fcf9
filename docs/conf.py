"""Configuration of the documentation; builds without a network."""

from importlib.metadata import version as _installed_version

from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

project = "rocwright"
author = "The rocwright authors"
copyright = author  # noqa: A001 - the name that Sphinx reads
release = version = _installed_version("rocwright")

extensions = ["myst_parser"]
exclude_patterns = ["_build"]
source_suffix = {".md": "markdown"}

# No dashes: `--set` in a sentence is an option.
smartquotes_action = "qe"
# Headings can be linked to as page.md#heading.
myst_heading_anchors = 3
myst_enable_extensions = ["deflist", "colon_fence"]

html_theme = "furo"
html_static_path = ["_static"]
templates_path = ["_templates"]
html_css_files = ["custom.css"]
html_title = f"rocwright {release}"
# A copy of every source page beside the page would only double the site.
html_copy_source = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True}
nitpicky = True


def setup(app: Sphinx) -> None:
    """Pages are also read where Mermaid is drawn; here its text is shown as it is."""
    app.add_lexer("mermaid", TextLexer)

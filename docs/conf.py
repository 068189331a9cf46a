"""Configure Sphinx for the site. `docs/build_site.py` collects the pages and runs Sphinx."""

project = "kagent_memory"
extensions = ["myst_parser"]
html_theme = "furo"
html_title = "kagent_memory"
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_static_path = ["site.css"]
html_css_files = ["site.css"]
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]
suppress_warnings = ["misc.highlighting_failure"]  # a block may leave out parts with "…"
pygments_style = "default"
pygments_dark_style = "monokai"

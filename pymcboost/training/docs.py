"""Link from an estimator's HTML display to its documentation."""


class Link:
    """Builds the documentation link in scikit-learn's HTML display, from the site in the package's metadata."""

    _doc_link_module = "pymcboost"

    @property
    def _doc_link_template(self):
        """URL template of the page, or an empty string if the metadata names no site."""
        from importlib.metadata import PackageNotFoundError, metadata  # programs show no HTML

        try:
            urls = metadata("pymcboost").get_all("Project-URL", [])
        except PackageNotFoundError:  # run from a source tree that is not installed
            urls = []
        site = dict(url.split(", ", 1) for url in urls).get("Documentation", "")
        return f"{site.rstrip('/')}/api/pymcboost.{{estimator_name}}.html" if site else ""

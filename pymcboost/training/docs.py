"""The link of an estimator's HTML to its documentation."""


class Link:
    """Names the page of a class, on the site that the package's metadata has; scikit-learn's HTML shows the link."""

    _doc_link_module = "pymcboost"

    @property
    def _doc_link_template(self):
        """The page, or an empty string without a site: no link."""
        from importlib.metadata import PackageNotFoundError, metadata  # programs show no HTML

        try:
            urls = metadata("pymcboost").get_all("Project-URL", [])
        except PackageNotFoundError:  # from its sources
            urls = []
        site = dict(url.split(", ", 1) for url in urls).get("Documentation", "")
        return f"{site.rstrip('/')}/api/pymcboost.{{estimator_name}}.html" if site else ""

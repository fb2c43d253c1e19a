"""Tables and figures of the papers: one runner, one file for each paper or subject."""

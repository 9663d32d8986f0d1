"""The report: one self-contained HTML page that shows what a run has learned."""

"""One module per reference page: from what the code says to Markdown."""

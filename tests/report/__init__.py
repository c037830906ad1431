"""The report: its page, its other formats, its figures."""

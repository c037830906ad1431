"""Runs as rows of a table, and as one self-contained page. It computes nothing new."""

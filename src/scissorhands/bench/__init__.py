"""A recipe: a run for every seed and method, then one table and one page."""

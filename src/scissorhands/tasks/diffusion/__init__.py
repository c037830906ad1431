"""Erasing a concept from a Stable Diffusion pipeline. Needs the extra: pip install 'scissorhands[diffusion]'."""

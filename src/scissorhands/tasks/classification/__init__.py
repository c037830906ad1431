"""Classifiers of images, texts and rows of numbers: our networks, Hugging Face folders, your own factories."""

"""Image classifiers: our networks, Hugging Face folders, your own factories."""

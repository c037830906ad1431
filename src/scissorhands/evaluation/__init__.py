"""What each level of evaluation gathers: outputs, probes, reference and shadow models, and the verdict."""

"""The verbs for diffusion pipelines."""

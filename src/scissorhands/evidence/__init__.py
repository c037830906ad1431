"""From a finished run to a pack that somebody else can check."""

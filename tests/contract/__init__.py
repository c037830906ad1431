"""What every method promises."""

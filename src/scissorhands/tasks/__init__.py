"""What is special about a kind of model: how it is loaded, measured and saved."""

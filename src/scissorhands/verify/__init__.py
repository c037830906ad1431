"""Check an evidence pack with the standard library alone: `python -m verify` runs this folder by itself."""

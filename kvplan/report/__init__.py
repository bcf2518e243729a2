"""One file per output format, for all commands."""

"""The command line. One file, one command."""

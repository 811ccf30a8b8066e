"""Collectors that watch a running program. One file, one source."""

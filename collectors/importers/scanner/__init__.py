"""Reads the events of a JSON trace, tolerantly, into columns."""

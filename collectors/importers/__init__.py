"""Importers of other tools' files. One file, one format."""

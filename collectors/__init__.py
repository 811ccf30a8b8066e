"""Where rows come from: live sources and importers of other tools' files."""

"""Questions asked of a recording. One module, one question."""

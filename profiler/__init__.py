"""Recording: the data model and its files (recording/) and capturing a run (session/)."""

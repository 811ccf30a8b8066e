"""A recording turned into other files: a Chrome trace, plain tables, a part of it, several joined."""

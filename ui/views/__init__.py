"""The views: each has ``layout`` (what it shows for an address) and, if it answers to clicks, ``register``."""

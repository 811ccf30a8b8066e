"""The browser application."""

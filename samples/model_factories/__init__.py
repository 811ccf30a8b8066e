"""Four small models for ``stallscope coverage``: each asks a device for something else.

``models.toml`` lists them. A factory is a function that returns ``(model, batch, loss)``; docs/coverage.md describes
the three.
"""

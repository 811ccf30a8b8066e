"""The browser application: a Dash app whose timeline is a component of its own, drawn on a canvas.

``app.create_app`` makes it; ``stallscope ui`` serves it. It computes no number: every figure comes from ``analysis``.
"""

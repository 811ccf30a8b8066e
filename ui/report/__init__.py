"""A recording as one HTML file that needs no server, no script and no network.

``page.report`` makes it; ``stallscope report`` writes it. It needs nothing of the browser application's extra packages,
and works out no number: every figure comes from ``analysis``.
"""

"""The HTTP API and the dashboard: one process per home, warm for hooks, scripts and people.

`server` owns the process (lock, socket, stop), `limits` the connections, `guard` who may ask, `app` the table of
paths, `api` the JSON answers, `pages` the HTML ones. Everything below `app` takes values and returns values.
"""

"""A Grafana dashboard and Prometheus alert rules for the metrics of `metrics.http.port`.

Runs where `penstock dashboard` runs. `dashboard` makes the JSON from `_PANELS`; `alerts.yml` is shipped as it
is. Invariant: every metric that they name exists (tests/unit/observe/test_grafana.py).
"""

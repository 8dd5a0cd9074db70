"""Serve the metrics of a source over HTTP: Prometheus text, JSON, health.

Runs in the process that plans a stream, if `metrics.http.port` is set; nothing of it is imported otherwise.
Invariants: a query never fails or waits because of it; a scrape changes nothing.
"""

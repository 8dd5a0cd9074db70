"""`penstock demo`: a real streaming job, on a real broker, on real data, checked against a plain computation.

Runs on the driver. Invariant: it leaves nothing running, and it says so when its result is wrong.
"""

"""The page of a source: one screen in a browser, without files from other servers.

`data` reads the page and makes its JSON. `uplot.js` and `uplot.css` are uPlot 1.6.32, unchanged (MIT,
`uplot.LICENSE`). Runs in the process that plans a stream.
Invariant: no secret is in anything that is served.
"""

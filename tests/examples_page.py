"""Make the page docs/examples.md from the scripts and notebooks in examples/.

Run `make docs` after you change one. Invariant: the page has the text that tests/spark/test_examples.py and
tests/spark/test_notebooks.py run.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

from tests.notebooks import cells

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "examples.md"
TITLES = {
    "copy_exactly_once.py": "Copy a topic exactly once",
    "cdc_to_table.py": "Changes of a database in a table",
    "sql_job.py": "A job in Flink's SQL",
    "join_topics.py": "A join of two topics",
    "dead_letters.py": "Dead letters",
    "repair_dead_letters.py": "Dead letters: repair them and put them back",
    "schema_registry.py": "Avro and the Schema Registry",
    "continuous_filter.py": "A filter without micro-batches",
    "batch_with_a_filter.py": "A batch read with a filter",
    "watch_lag.py": "Lag and health",
    "dashboard.py": "A dashboard",
    "test_a_job.py": "A test of a job",
    "connect_client.py": "A client of Spark Connect",
    "pipeline.py": "A Declarative Pipeline",
}
"""The scripts in the order of the page."""
NOTEBOOKS = {
    "latency.ipynb": "Notebook: how late is a copy?",
    "table_freshness.ipynb": "Notebook: how fresh is a table?",
}
_HEAD = """\
# Examples

<!-- Made by `python -m tests.examples_page` (`make docs`): change the scripts in examples/, not this. -->

Each of these scripts can be read in a minute. They stand in the folder `examples` of a checkout, and a test
runs each of them on a real Kafka and a real Spark. [Install](install.md) penstock. Start a broker with
`penstock broker start --port 9092`. Create the topics of the script (`penstock topics create`). Run it.

Two notebooks for Jupyter draw plots. They start a Kafka of their own, and are kept without output.
"""


_COMPOSE = """
## Kafka, Spark, Prometheus and Grafana together

With Docker, in a checkout:

```console
$ cd examples/compose
$ docker compose up --build
```

`examples/compose/compose.yaml` starts a broker, a writer of 50 records a second, a job that copies them
exactly once, Prometheus with the rules of `penstock dashboard --alerts`, and Grafana with the dashboard.
Look at <http://localhost:3000> (Grafana), <http://localhost:9090> (Prometheus) and
<http://localhost:9250> (the page of the job). The broker is `localhost:9092`.
`docker compose down --volumes` removes it all.

Docker Compose and promtool accept the files, and a test runs the job on a real Kafka and a real Spark. The
containers themselves have not run, because the machine of these tests has no Docker daemon.
"""


def text() -> str:
    """Return the page."""
    scripts = "".join(_entry(name, title) for name, title in TITLES.items())
    return _HEAD + scripts + "".join(_notebook(name, title) for name, title in NOTEBOOKS.items()) + _COMPOSE


def _entry(name: str, title: str) -> str:
    code = (ROOT / "examples" / name).read_text(encoding="utf-8")
    docstring = ast.get_docstring(ast.parse(code)) or ""
    body = code.partition('"""\n\n')[2].partition("from __future__ import annotations\n\n")[2].lstrip("\n")
    return f"\n## {title}\n\n`examples/{name}`: {docstring}\n\n```python\n{body}```\n"


def _notebook(name: str, title: str) -> str:
    first, *others = cells(name)
    text = first.text.partition("\n\n")[2]
    parts = [f"```python\n{each.text}\n```" if each.kind == "code" else each.text for each in others]
    return f"\n## {title}\n\n`examples/{name}`: {text}\n\n" + "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8")
    sys.stdout.write(f"{PAGE}\n")

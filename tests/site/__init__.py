"""The site of the docs: pages, checks, and the file for language models. `make site` runs it."""

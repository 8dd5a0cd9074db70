"""Programs that record what another system answers, so that tests can compare without that system."""

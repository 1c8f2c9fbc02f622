"""WHERE IT HAPPENS: environments, sandboxes, runs and executions."""

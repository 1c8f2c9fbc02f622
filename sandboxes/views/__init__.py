"""Pages of runs, environments, providers, sandboxes and agents."""

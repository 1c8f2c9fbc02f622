"""Pages that belong to no single room: overview, health, settings."""

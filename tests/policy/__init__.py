"""The policy engine: no database, no network."""

"""SQLite as a database that many threads of one process write to."""

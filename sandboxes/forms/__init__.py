"""Forms of the sandboxes room's pages."""

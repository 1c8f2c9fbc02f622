"""Every state change of this room."""

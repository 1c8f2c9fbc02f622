"""Commands of the approvals room."""

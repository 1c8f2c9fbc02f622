"""Commands an operator types."""

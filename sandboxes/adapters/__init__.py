"""One module for each provider that is driven; none knows another."""

"""Where sandboxes come from: the contract, the table of providers, and what adapters share."""

"""What every room shares and what knows nothing of the product."""

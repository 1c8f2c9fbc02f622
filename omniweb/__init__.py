"""The frame of the product: settings, doors, and what every room shares."""

"""Vendors of hosted sandboxes on this machine, for their real SDKs.

Each module speaks one vendor's wire protocol on loopback and runs what it is sent as real
processes, cut off by bubblewrap. Each has `start()`, which returns the vendor running; it
checks requests as the vendor does, keeps them, and fails as it is told to. Nothing here needs
pytest, so that the product's own commands can start one as well.
"""

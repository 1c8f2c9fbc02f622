"""WHAT HAPPENED: the hash-chained record of every run."""

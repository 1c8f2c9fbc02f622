"""WHAT MAY HAPPEN: policies, decisions, requests, votes and grants."""

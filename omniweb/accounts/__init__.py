"""People, teams, agents and their tokens: who is acting, and what they may do."""

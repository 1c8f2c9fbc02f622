"""Pages of this room: the inbox, policies, decisions and grants."""

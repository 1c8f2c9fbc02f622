"""How a trajectory is shown: plain values made from steps, drawn by templates."""

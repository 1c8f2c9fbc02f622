"""Reading commands: which simple commands a line runs, and what in it could not be read."""

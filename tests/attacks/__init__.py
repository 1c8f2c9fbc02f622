"""What an attacker would try at each door, and that it comes to nothing."""

"""Links carry packets between the two sides of a session, and understand none of them."""

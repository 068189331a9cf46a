"""Facts and what is near them become changes: add, update, supersede, reinforce, merge."""

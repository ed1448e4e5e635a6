"""Teaching: a network learns to see what stronger networks see, from photos that need no labels."""

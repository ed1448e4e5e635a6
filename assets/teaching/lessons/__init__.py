"""Teaching, which distils stronger networks into a student on photos that need no labels."""

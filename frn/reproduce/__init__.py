"""The tables of the paper, and two of our own in its manner, row by row. Free of torch."""

"""The tables of the paper, and two more in the same form, row by row, without torch."""

"""The tables of the paper, and others in the same form, row by row, without torch."""

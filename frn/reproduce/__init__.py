"""The tables of the paper, and three more in the same form, row by row, without torch."""

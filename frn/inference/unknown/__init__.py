"""Photos of no class: the rule that names them, and its calibration on the examples."""

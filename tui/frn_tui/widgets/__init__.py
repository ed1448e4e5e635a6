"""What the screens are made of. Widgets are given plain values and answer with messages; none asks the engine."""

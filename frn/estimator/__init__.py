"""Few-shot classification from Python as a scikit-learn estimator. This package does not need torch."""

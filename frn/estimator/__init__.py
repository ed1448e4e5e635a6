"""Few-shot classification from Python, as an estimator of scikit-learn. Free of torch."""

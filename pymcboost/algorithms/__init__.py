"""One file per paper: the booster of an algorithm, what a round does, and its estimator with the parameters."""

"""What all algorithms share: the estimator's contract, the loop of rounds, its callbacks and the parameters."""

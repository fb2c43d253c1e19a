"""What all algorithms share: the estimators' interface, the boosting loop, callbacks and parameters."""

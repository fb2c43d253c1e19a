"""The workhorses, which have all that the library does: boosters do the rounds, estimators have the parameters."""

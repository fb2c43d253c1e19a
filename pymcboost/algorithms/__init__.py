"""The main algorithms, with all features of the library: boosters train rounds, estimators define parameters."""

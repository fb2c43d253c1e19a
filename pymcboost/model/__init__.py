"""Models in a file and in memory: saving, loading and prediction. Needs only NumPy."""

"""The scoring island: models as they are saved, read and scored. Needs NumPy only."""

"""Compiled loops over plain arrays. Nothing here imports the rest of pymcboost."""

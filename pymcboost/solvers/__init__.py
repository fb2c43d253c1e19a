"""Solvers: coefficients of weak learners, of one at a time or of all."""

"""Solvers for the coefficients of weak learners: one learner at a time, or all."""

"""Benchmarks: one runner, one file for each subject. Time, memory and error stand in one row."""

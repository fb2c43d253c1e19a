"""Slow, obvious NumPy twins of the compiled kernels."""

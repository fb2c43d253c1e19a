"""HingeBoost.OC: rounds of columns and machines, first columns, solvers of the machines, kernels, data."""

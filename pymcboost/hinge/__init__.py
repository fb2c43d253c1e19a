"""HingeBoost.OC: rounds of code columns and machines, initial columns, SVM solvers, kernels and data."""

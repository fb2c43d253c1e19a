"""What benchmarks and experiments share: data sets, measuring, other libraries, tables and pictures."""

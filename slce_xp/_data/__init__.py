"""Data of every kind: matrices, labels, and rows that are read in passes."""

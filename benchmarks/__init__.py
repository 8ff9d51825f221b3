"""Benchmarks: timings live here and never in tests."""

"""Example workloads and recordings."""

"""Measurements, each beside what a user would do otherwise, in one run. `make bench` prints them as tables."""

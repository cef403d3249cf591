"""Faults of the engines that a deployment on several machines runs on, under a real service with a small load."""

"""Answers: what a request costs, what fits, and why."""

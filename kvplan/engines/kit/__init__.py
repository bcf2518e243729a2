"""What every engine would write again: refusals, version rules, flag tables."""

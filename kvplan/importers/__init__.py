"""Readers of foreign model files: each turns one format into facts, and its names end here."""

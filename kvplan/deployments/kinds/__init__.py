"""Kinds of files: each module says which documents it knows and what engines they hold."""

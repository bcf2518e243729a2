"""Deployment files of a tree, read one after another.

paths   which files: sorted, within what was given, never through a link out of it
facts   what each of them says
"""

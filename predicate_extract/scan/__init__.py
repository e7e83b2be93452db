"""Filters in a source tree, found and analysed without importing it.

`modules` makes of a file the functions, classes and constants that importing it would give, and
runs none of its code; so the analysis is the same as for code that is loaded. `rules` says what is
a filter, and what is a hazard in one; `search` looks through the files.
"""

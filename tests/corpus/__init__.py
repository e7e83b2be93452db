"""Filters and rules as engineers of several fields write them, with the predicates in them."""

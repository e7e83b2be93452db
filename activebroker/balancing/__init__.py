"""Which filters move from which broker to which, by what status reports say."""

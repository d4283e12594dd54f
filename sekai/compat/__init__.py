"""Adapters to the libraries that markets are trained with; each needs an extra of its own."""

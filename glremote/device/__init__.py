"""Logical devices: where a context's work is done."""

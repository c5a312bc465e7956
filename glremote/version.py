"""The one place of the version number; setup.cfg reads it."""

VERSION = "0.1.0"

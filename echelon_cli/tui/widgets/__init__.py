"""Widgets that screens and panels share."""

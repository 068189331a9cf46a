"""Prose lives as prose: the prompts, one file each."""

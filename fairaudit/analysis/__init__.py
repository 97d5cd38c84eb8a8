"""Trainings to a report's contents."""

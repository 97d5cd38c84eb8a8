"""The one artefact and its renderings."""

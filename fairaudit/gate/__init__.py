"""Rules in CI: a stored report and failing conditions in, one verdict out.

Pure; no torch, no pandas.
"""

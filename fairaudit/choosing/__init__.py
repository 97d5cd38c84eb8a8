"""From a limit to a method and an epsilon.

Which is the smallest that keeps the rules, with a known error.
"""

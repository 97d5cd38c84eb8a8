"""Commands: parse, call, print, exit."""

"""From a limit to a method and the smallest epsilon that keeps the rules, with a known error."""

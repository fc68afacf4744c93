"""Speed and memory benchmarks of S7 and of other implementations of the same computation.

Each benchmark is a generator of rows: plain dictionaries, one per case and implementation. All implementations of a
case run in one process and take turns. Implementations that should give the same numbers are compared before they are
timed.
"""

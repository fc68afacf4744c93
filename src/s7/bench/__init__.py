"""How fast S7 is on this machine, beside other ways to compute the same: what `s7 bench` measures.

Each benchmark is a function that yields rows, plain dictionaries, one for each case and each way of computing it. All
ways of a case run in one process, in turns; where they should give the same numbers, that is checked before any clock
starts.
"""

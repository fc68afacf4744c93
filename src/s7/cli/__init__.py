"""The command line: one module per command.

A module of this package that defines `add_arguments(parser)` and `run(options)` is a command; the first line of its
docstring is its help. Command modules import JAX and NumPy inside `run` only, so that `--help` stays fast.
"""

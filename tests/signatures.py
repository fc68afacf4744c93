"""Signature checks in tests: an int is accepted as a float, as in Python."""

from beartype import BeartypeConf, beartype

check = beartype(conf=BeartypeConf(is_pep484_tower=True))

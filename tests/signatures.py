"""How signatures are checked in tests: an int may stand where a float is expected, as everywhere in Python."""

from beartype import BeartypeConf, beartype

check = beartype(conf=BeartypeConf(is_pep484_tower=True))

"""A `say` function that ignores its messages."""


def silent(_: str) -> None:
    """Hears, and that is all."""

"""A `say` function that ignores its messages."""


def silent(_: str) -> None:
    """Ignore a message."""

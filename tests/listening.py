"""Who listens to what a task says, and does nothing about it."""


def silent(_: str) -> None:
    """Hears, and that is all."""

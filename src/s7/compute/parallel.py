"""The backend "parallel": an associative scan, compiled by XLA."""

from jax import lax

from s7.backend_selection import Backend


class Parallel(Backend, name="parallel"):
    """Compiled by XLA, the recurrence as an associative scan: for accelerators."""

    def recurrence(self, a, v, initial, reverse):
        """Pairs of steps, then pairs of pairs."""

        def compose(earlier, later):
            (a1, v1), (a2, v2) = earlier, later
            return a2 * a1, a2 * v1 + v2

        products, states = lax.associative_scan(compose, (a, v), reverse=reverse)
        return states + products * initial

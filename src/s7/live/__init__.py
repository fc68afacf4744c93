"""Live streams: what `s7 stream` and `s7 serve` have in common, and the server with its page."""

"""Speed and memory, side by side with the straightforward way, in one run on this machine."""

"""What it takes to begin and to hold, and what the presets reach; speed is `s7 bench`."""

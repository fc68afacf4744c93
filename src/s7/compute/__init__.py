"""The built-in backends, one file each. They register themselves; `s7.backend` chooses one."""

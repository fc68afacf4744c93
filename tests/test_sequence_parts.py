"""Sequences and batches that are divided over devices give the outputs and gradients of one device."""

import json
import os
import subprocess
import sys


def test_divided_sequences_and_batches_are_exact():
    flags = f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count=4"
    command = [sys.executable, "-W", "error", "-m", "tests.virtual_devices"]
    done = subprocess.run(command, env=os.environ | {"XLA_FLAGS": flags}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    differences = json.loads(done.stdout)
    assert len(differences) == 6
    assert max(differences.values()) < 1e-5, differences

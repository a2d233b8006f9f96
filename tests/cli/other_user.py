"""A user of whom no other test has processes."""
import os
import subprocess


def without_processes(command):
    """Words for subprocess: root would see everybody's processes, so whoever has none, if he can execute `command`."""
    user = {"user": 100000 + os.getpid() % 1000000, "group": 65534, "extra_groups": []}
    try:
        can = os.geteuid() == 0 and subprocess.run([command, "--version"], capture_output=True, check=False,
                                                   **user).returncode == 0
    except OSError:
        can = False
    return user if can else {}

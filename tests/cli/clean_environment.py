"""The environment in which a test starts cubfc or a program under it."""
import os

# Of cubfc, of the software driver and its NVML, of CUDA and its frameworks, of the dynamic linker, of launchers.
CONFIGURES = ("CUBFC_", "STANDIN_", "NVML_", "CUDA_", "XLA_", "LD_", "SLURM_", "OMPI_")


def clean_environment(**settings):
    """The test's own environment without what would configure the program, and with these settings."""
    return {name: value for name, value in os.environ.items() if not name.startswith(CONFIGURES)} | settings

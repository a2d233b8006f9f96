"""Which suites there are: what to install, in which versions, and where its tests are. Nothing of them is in this
project; scripts/third-party-suites fetches them from PyPI."""

import dataclasses

# What every environment has.
RUNNER = ("pytest==8.4.2", "pluggy==1.6.0", "iniconfig==2.1.0", "packaging==25.0", "pygments==2.19.2")


@dataclasses.dataclass(frozen=True)
class Suite:
    name: str
    what: str
    wheels: tuple  # with all that they need: nothing else is installed
    tests: str  # the folder of the tests, in site-packages or, of a source package, in that
    source: str | None = None  # a package that is built here
    environment: dict = dataclasses.field(default_factory=dict)  # {site}: site-packages, {here}: its folder, {compiler}
    first: str = ""  # Python that loads what its tests load; it must not use CUDA
    each: str = ""  # Python that is run in each process, before it loads the tests
    only: tuple = ("test_*.py",)  # of the files in that folder
    conftest: str = ""  # what pytest is to find beside the tests, where the package lacks it
    python: tuple = ((3, 10), (3, 13))  # the versions that there are wheels for


# Compiles to PTX for a device that need not be there, so that no test does again what the compiler does first.
NUMBA_FIRST = """
import numpy, numba.cuda, numba.cuda.testing
from numba import float32, void
numba.cuda.compile_ptx(lambda a, b: None, void(float32[:], float32), cc=(9, 0))
"""

# The tests ask for this fixture, which only Numba's repository has.
NUMBA_CONFTEST = """
import pytest

@pytest.fixture(scope="class")
def initialize_from_pytest_config(request):
    request.cls._dump_failed_filechecks = False
"""

SUITES = (
    Suite(
        name="numba-cuda",
        what="Numba's tests of its use of the driver, by NVIDIA's binding and cuda.core",
        wheels=("numba-cuda==0.30.4", "numba==0.61.2", "llvmlite==0.44.0", "numpy==2.2.6", "filecheck==1.0.2",
                "psutil==7.0.0", "cffi==1.17.1", "pycparser==2.22", "ml-dtypes==0.5.1", "cuda-bindings==12.9.10",
                "cuda-core==1.2.2", "cuda-pathfinder==1.9.0", "nvidia-cuda-nvcc-cu12==12.9.86",
                "nvidia-cuda-nvrtc-cu12==12.9.86", "nvidia-cuda-runtime-cu12==12.9.79",
                "nvidia-nvjitlink-cu12==12.9.86", "nvidia-cuda-cccl-cu12==12.9.27"),
        tests="numba_cuda/numba/cuda/tests/cudadrv",
        environment={"NUMBA_CUDA_TEST_BIN_DIR": "{here}/tests",
                     "STANDIN_JIT": "{site}/nvidia/nvjitlink/lib/libnvJitLink.so.12",
                     "LD_LIBRARY_PATH": "{site}/nvidia/cuda_nvcc/nvvm/lib64"},
        first=NUMBA_FIRST,
        conftest=NUMBA_CONFTEST),
    Suite(
        name="numba-ctypes",
        what="the same of an older version, by Numba's own binding, of ctypes",
        wheels=("numba-cuda==0.15.2", "numba==0.61.2", "llvmlite==0.44.0", "numpy==2.2.6", "filecheck==1.0.2",
                "psutil==7.0.0", "cffi==1.17.1", "pycparser==2.22", "ml-dtypes==0.5.1", "cuda-bindings==12.9.2",
                "cuda-pathfinder==1.2.2", "nvidia-cuda-nvcc-cu12==12.9.86", "nvidia-cuda-nvrtc-cu12==12.9.86",
                "nvidia-cuda-runtime-cu12==12.9.79", "nvidia-nvjitlink-cu12==12.9.86",
                "pynvjitlink-cu12==0.7.0"),
        tests="numba_cuda/numba/cuda/tests/cudadrv",
        environment={"NUMBA_CUDA_TEST_BIN_DIR": "{here}/tests", "NUMBA_CUDA_USE_NVIDIA_BINDING": "0",
                     "STANDIN_JIT": "{site}/nvidia/nvjitlink/lib/libnvJitLink.so.12"},
        first=NUMBA_FIRST),
    Suite(
        name="cuda-python",
        what="the tests of NVIDIA's binding of driver and runtime, whose runtime is written over the driver",
        wheels=("cuda-python==12.6.0", "numpy==2.2.6", "nvidia-cuda-nvrtc-cu12==12.6.85",
                "nvidia-nvjitlink-cu12==12.6.85"),
        tests="cuda/tests",
        environment={"LD_LIBRARY_PATH": "{site}/nvidia/cuda_nvrtc/lib",
                     "STANDIN_JIT": "{site}/nvidia/nvjitlink/lib/libnvJitLink.so.12"},
        first="import numpy, cuda.cuda, cuda.cudart, cuda.nvrtc",
        # Some of its files ask the driver for what to skip when they are loaded, and count on another's call.
        each="import cuda.cuda\ncuda.cuda.cuInit(0)",
        python=((3, 10), (3, 12))),
    Suite(
        name="pycuda",
        what="PyCUDA's tests of the driver",
        wheels=("numpy==2.2.6", "pytools==2024.1.14", "platformdirs==4.3.6", "typing-extensions==4.12.2",
                "mako==1.3.8", "markupsafe==3.0.2", "setuptools==75.8.0", "wheel==0.45.1",
                "siphash24==1.7", "nvidia-cuda-nvrtc-cu12==12.9.86", "nvidia-nvjitlink-cu12==12.9.86"),
        source="pycuda==2026.1",
        tests="test",
        environment={"PYCUDA_CACHE_DIR": "{here}/cache", "PATH": "{compiler}",
                     "NVRTC_LIBRARY": "{site}/nvidia/cuda_nvrtc/lib/libnvrtc.so.12",
                     "NVRTC_INCLUDE": "{here}/headers/nvidia/cuda_runtime/include",
                     "STANDIN_JIT": "{site}/nvidia/nvjitlink/lib/libnvJitLink.so.12"},
        first="import numpy, pycuda.driver, pycuda.gpuarray, pycuda.compiler",
        only=("test_driver.py",)),
)

"""Makes stand-ins for a Python environment that is made up here, and calls them as a framework does.

usage: libraries_test.py FOLDER    which has the software driver and its runtime
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import unittest

HERE = pathlib.Path(__file__).resolve().parent
LIBRARIES = pathlib.Path(sys.argv.pop())

# What a framework's library leaves undefined, by the soname of what should have it.
ASKED = {"libcublas.so.13": ["cublasCreate_v2", "cublasDestroy_v2", "cublasSetStream_v2", "cublasSgemm_v2", "cublasSdot_v2",
                             "cublasNewThing"],
         "libcublas.so.12": ["cublasGemmEx"],  # by a build for an older CUDA, which is not installed
         "libcublasLt.so.13": ["cublasLtMatmulAlgoGetHeuristic", "cublasLtGetVersion"],
         "libcudnn.so.9": ["cudnnCreate", "cudnnGetVersion", "cudnnCreateRNNDescriptor", "cudnnSetRNNDescriptor_v8",
                           "cudnnDestroyRNNDescriptor", "cudnnRNNForward"]}

USER = """
    import ctypes, os, sys
    cuda, blas, dnn = (ctypes.CDLL(name) for name in ("libcuda.so.1", "libcublas.so.13", "libcudnn.so.9"))
    P = ctypes.c_void_p
    def free():
        bytes = ctypes.c_size_t()
        assert cuda.cuMemGetInfo_v2(ctypes.byref(bytes), None) == 0
        return bytes.value
    handle = P()
    assert blas.cublasCreate_v2(ctypes.byref(handle)) == 3  # no context, so no memory
    context = P()
    assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert cuda.cuCtxSetCurrent(context) == 0
    before = free()
    assert blas.cublasCreate_v2(ctypes.byref(handle)) == 0
    print("workspace", before - free())
    assert blas.cublasSgemm_v2(handle) == 0 and blas.cublasSgemm_v2(None) == 1
    assert blas.cublasSdot_v2(handle) == 15 and blas.cublasSdot_v2(handle) == 15 and blas.cublasNewThing() == 15
    assert blas.cublasDestroy_v2(handle) == 0 and free() == before
    descriptor = P()
    assert dnn.cudnnCreateRNNDescriptor(ctypes.byref(descriptor)) == 0 and descriptor.value
    assert dnn.cudnnSetRNNDescriptor_v8(descriptor) == 0 and dnn.cudnnRNNForward(descriptor) == 3000
    assert dnn.cudnnDestroyRNNDescriptor(descriptor) == 0
    assert dnn.cudnnLookedUpByItsName() == 3000
    print("cudnn", dnn.cudnnGetVersion())
"""


def run(*command, **more):
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False, **more)


def make_environment(folder):
    """site-packages/framework/libframework.so asks for what stands in ASKED, and NVIDIA's headers say cuDNN 9.8.7."""
    site = folder / "site-packages"
    (site / "framework").mkdir(parents=True)
    (site / "nvidia/cudnn/include").mkdir(parents=True)
    (site / "nvidia/cudnn/include/cudnn_version.h").write_text(
        "#define CUDNN_MAJOR 9\n#define CUDNN_MINOR 8\n#define CUDNN_PATCHLEVEL 7\n")
    for installed in ("libcublas.so.13", "libcublasLt.so.13", "libcudnn.so.9"):
        library = site / "nvidia" / installed.split(".")[0][3:] / "lib" / installed
        library.parent.mkdir(parents=True, exist_ok=True)
        library.touch()
    theirs = []
    for soname, names in ASKED.items():
        source, versions = folder / "theirs.c", folder / "theirs.map"
        source.write_text("\n".join(f"int {name}(void) {{ return 99; }}" for name in names) + "\n")
        versions.write_text(f"{soname} {{ global: *; }};\n")
        made = run("cc", "-shared", "-fPIC", "-o", folder / soname, f"-Wl,-soname,{soname}",
                   f"-Wl,--version-script={versions}", source)
        assert made.returncode == 0, made.stderr
        theirs.append(folder / soname)
    user = folder / "user.c"
    names = [name for part in ASKED.values() for name in part]
    user.write_text("\n".join(f"int {name}(void);" for name in names) + "\nint call(void) { return "
                    + " + ".join(f"{name}()" for name in names) + "; }\n"
                    'const char* looked_up(void) { return "cudnnLookedUpByItsName"; }\n')
    made = run("cc", "-shared", "-fPIC", "-o", site / "framework/libframework.so", user, *theirs)
    assert made.returncode == 0, made.stderr
    (site / "framework/libtext.so").write_text("not an object\n")
    return site


class Libraries(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = pathlib.Path(scratch.name)
        cls.site = make_environment(cls.folder)
        cls.out = cls.folder / "stand-ins"
        made = run(sys.executable, HERE / "make.py", "--cudart", LIBRARIES, cls.site, cls.out)
        assert made.returncode == 0, made.stderr
        cls.made = made.stdout.split()

    def run_user(self, text, **variables):
        return run(sys.executable, "-c", textwrap.dedent(text), env={
            "PATH": os.environ["PATH"], "LD_LIBRARY_PATH": f"{LIBRARIES}:{self.out}", "STANDIN_MEMORY": "1GiB", **variables})

    def test_what_is_asked_for_is_made_and_serves(self):
        self.assertEqual(self.made, [*sorted({*ASKED} - {"libcublas.so.12"}), "libnvidia-ml.so.1"])
        for capability, workspace in (("9.0", 33554432), ("8.9", 8519680)):
            done = self.run_user(USER, STANDIN_CAPABILITY=capability)
            self.assertEqual(done.returncode, 0, done.stderr)
            # The driver gives memory in pieces of 2 MiB.
            taken = int(done.stdout.split()[1])
            self.assertTrue(workspace <= taken < workspace + (4 << 20), done.stdout)
            self.assertIn("cudnn 90807", done.stdout)
            self.assertEqual(done.stderr.splitlines(), [
                "standin: libcublas.so.13: cublasSdot_v2 is not served", "standin: libcublas.so.13: cublasNewThing is not served",
                "standin: libcudnn.so.9: cudnnRNNForward is not served",
                "standin: libcudnn.so.9: cudnnLookedUpByItsName is not served"])

    def test_preloaded_ones_take_the_place_of_those_that_the_framework_was_linked_to(self):
        text = """
            import ctypes
            framework = ctypes.CDLL("libframework.so")
            print([line.split()[-1] for line in open("/proc/self/maps") if "libcublas.so" in line])
        """
        variables = {"LD_LIBRARY_PATH": f"{self.site / 'framework'}:{self.folder}:{LIBRARIES}"}
        done = self.run_user(text, **variables)
        self.assertIn(str(self.folder / "libcublas.so.13"), done.stdout, done.stderr)
        preloaded = ":".join(str(self.out / soname) for soname in self.made)
        done = self.run_user(text, LD_PRELOAD=preloaded, **variables)
        self.assertIn(str(self.out / "libcublas.so.13"), done.stdout, done.stderr)
        self.assertNotIn(str(self.folder / "libcublas.so.13"), done.stdout)

    def test_a_folder_that_is_none_is_refused(self):
        done = run(sys.executable, HERE / "make.py", self.folder / "none", self.out)
        self.assertEqual(done.returncode, 1)
        self.assertIn("usage:", done.stderr)

    def test_nvml_knows_the_software_drivers_devices(self):
        done = self.run_user("""
            import ctypes
            nvml = ctypes.CDLL("libnvidia-ml.so.1")
            count, device = ctypes.c_uint(), ctypes.c_void_p()
            assert nvml.nvmlInit_v2() == 0 and nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)) == 0
            assert nvml.nvmlDeviceGetHandleByPciBusId_v2(b"0000:01:00.0", ctypes.byref(device)) == 0
            assert nvml.nvmlDeviceGetHandleByPciBusId_v2(b"0000:77:00.0", ctypes.byref(device)) == 6
            print(count.value)
        """, STANDIN_DEVICES="3")
        self.assertEqual((done.returncode, done.stdout), (0, "3\n"), done.stderr)

    def test_nvml_has_no_memory_figures_of_an_integrated_device(self):
        text = """
            import ctypes
            nvml, device, figures = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.c_void_p(), (ctypes.c_uint64 * 3)()
            assert nvml.nvmlInit_v2() == 0 and nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device)) == 0
            print(nvml.nvmlDeviceGetMemoryInfo(device, figures), *figures)
        """
        done = self.run_user(text)
        self.assertEqual(done.stdout, f"0 {1 << 30} {1 << 30} 0\n", done.stderr)
        profile = HERE.parent / "profiles/gb10.json"
        self.assertEqual(self.run_user(text, STANDIN_PROFILE=str(profile)).stdout, "3 0 0 0\n")


if __name__ == "__main__":
    unittest.main()

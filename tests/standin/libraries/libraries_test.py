"""Calls the stand-ins of NVIDIA's libraries as a framework does.

usage: libraries_test.py FOLDER    which has the software driver, its runtime, and libraries/
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import textwrap
import unittest

HERE = pathlib.Path(__file__).resolve().parent
DRIVER = pathlib.Path(sys.argv.pop())
LIBRARIES = DRIVER / "libraries"
SONAMES = ["libcublas.so.12", "libcublas.so.13", "libcublasLt.so.12", "libcublasLt.so.13", "libcudnn.so.9", "libcusolver.so.11",
           "libcusolver.so.12", "libcusparse.so.12"]

BEGIN = """
    import ctypes, os, sys
    cuda, blas, dnn = (ctypes.CDLL(name) for name in ("libcuda.so.1", "libcublas.so.13", "libcudnn.so.9"))
    P = ctypes.c_void_p
    handle, context = P(), P()
"""
USER = BEGIN + """
    def free():
        bytes = ctypes.c_size_t()
        assert cuda.cuMemGetInfo_v2(ctypes.byref(bytes), None) == 0
        return bytes.value
    assert blas.cublasCreate_v2(ctypes.byref(handle)) == 3  # no context, so no memory
    assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert cuda.cuCtxSetCurrent(context) == 0
    before = free()
    assert blas.cublasCreate_v2(ctypes.byref(handle)) == 0
    print("workspace", before - free())
    assert blas.cublasSgemm_v2(handle) == 0 and blas.cublasSgemm_v2(None) == 1
    assert blas.cublasSdot_v2(handle) == 15 and blas.cublasSdot_v2(handle) == 15  # its number would be the host's
    assert blas.cublasSetPointerMode_v2(handle, 1) == 0 and blas.cublasSdot_v2(handle) == 0  # now it is the device's
    assert blas.cublasXtCreate(ctypes.byref(handle)) == 15
    assert blas.cublasDestroy_v2(handle) == 0 and free() == before
    descriptor = P()
    assert dnn.cudnnCreateRNNDescriptor(ctypes.byref(descriptor)) == 0 and descriptor.value
    assert dnn.cudnnSetRNNDescriptor_v8(descriptor) == 0 and dnn.cudnnRNNForward(descriptor) == 3000
    assert dnn.cudnnDestroyRNNDescriptor(descriptor) == 0
    print("cudnn", dnn.cudnnGetVersion())
"""


def run(*command, **more):
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False, **more)


class Libraries(unittest.TestCase):
    def run_user(self, text, **variables):
        return run(sys.executable, "-c", textwrap.dedent(text), env={
            "PATH": os.environ["PATH"], "LD_LIBRARY_PATH": f"{DRIVER}:{LIBRARIES}", "STANDIN_MEMORY": "1GiB", **variables})

    def test_they_serve_what_frameworks_ask_for(self):
        for capability, workspace in (("9.0", 33554432), ("8.9", 8519680)):
            done = self.run_user(USER, STANDIN_CAPABILITY=capability, STANDIN_CUDNN_VERSION="9.8.7.1")
            self.assertEqual(done.returncode, 0, done.stderr)
            # The driver gives memory in pieces of 2 MiB.
            taken = int(done.stdout.split()[1])
            self.assertTrue(workspace <= taken < workspace + (4 << 20), done.stdout)
            self.assertIn("cudnn 90807", done.stdout)
            self.assertEqual(done.stderr.splitlines(), [
                "standin: cuBLAS: cublasSdot_v2 is not served", "standin: cuBLAS: cublasXtCreate is not served",
                "standin: cuDNN: cudnnRNNForward is not served"])

    def test_each_has_every_function_of_its_list_under_the_version_of_its_soname(self):
        for soname in SONAMES:
            with self.subTest(soname):
                name = soname.split(".")[0][3:]
                listed = re.findall(r"\((\w+)\)", (HERE / f"functions/{name}.inc").read_text(encoding="utf-8"))
                self.assertGreater(len(listed), 200)
                defined = run("nm", "-D", "--defined-only", LIBRARIES / soname).stdout
                exported = dict(line.split()[-1].split("@@") for line in defined.splitlines() if "@@" in line)
                self.assertEqual([function for function in listed if exported.get(function) != soname], [])

    def test_preloaded_ones_take_the_place_of_those_that_the_framework_was_linked_to(self):
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch)
            for name, text, links in (("libcublas.so.13", "int cublasSgemm_v2(void* handle) { (void)handle; return 99; }", ()),
                                      ("libframework.so", "int cublasSgemm_v2(void*); int call(void) { return cublasSgemm_v2(0); }",
                                       (folder / "libcublas.so.13",))):
                (folder / "source.c").write_text(text)
                (folder / "versions").write_text(f"{name} {{ global: *; }};\n")
                made = run("cc", "-shared", "-fPIC", "-o", folder / name, f"-Wl,-soname,{name}", folder / "source.c",
                           f"-Wl,--version-script={folder / 'versions'}", *links)
                self.assertEqual(made.returncode, 0, made.stderr)
            text = "import ctypes; print(ctypes.CDLL('libframework.so').call())"
            path = f"{folder}:{DRIVER}"
            self.assertEqual(self.run_user(text, LD_LIBRARY_PATH=path).stdout, "99\n")
            done = self.run_user(text, LD_LIBRARY_PATH=path, LD_PRELOAD=str(LIBRARIES / "libcublas.so.13"))
            self.assertEqual((done.stdout, done.stderr), ("1\n", ""))

    def test_a_convolution_asks_for_a_share_of_copies_of_its_operands(self):
        """By cuDNN's backend interface, as PyTorch does: a graph of one convolution, what a heuristic finds for it, and its plan."""
        text = """
            import ctypes
            dnn, P, N = ctypes.CDLL("libcudnn.so.9"), ctypes.c_void_p, ctypes.c_int64
            def descriptor(kind, **attributes):
                made = P()
                assert dnn.cudnnBackendCreateDescriptor(kind, ctypes.byref(made)) == 0
                for name, (type, values) in attributes.items():
                    assert dnn.cudnnBackendSetAttribute(made, int(name[1:]), type, N(len(values)), values) == 0
                assert dnn.cudnnBackendFinalize(made) == 0
                return made
            def tensor(type, sizes, innermost):
                strides, step = [0] * 4, 1
                for axis in ((1, 3, 2, 0) if innermost else (3, 2, 1, 0)):
                    strides[axis], step = step, step * sizes[axis]
                return descriptor(8, _901=(1, (ctypes.c_int * 1)(type)), _902=(3, (N * 4)(*sizes)), _903=(3, (N * 4)(*strides)))
            def parts(*descriptors):
                return 15, (P * len(descriptors))(*descriptors)
            def workspace(type, channels, innermost):
                w, x, y = (tensor(type, sizes, innermost) for sizes in ((64, channels, 3, 3), (2, channels, 10, 10), (2, 64, 10, 10)))
                graph = descriptor(15, _801=parts(descriptor(10, _703=parts(w), _704=parts(x), _705=parts(y))))
                heuristic, found, count, size = descriptor(7, _201=parts(graph)), descriptor(4), N(), N(-1)
                assert dnn.cudnnBackendGetAttribute(heuristic, 202, 15, N(1), ctypes.byref(count), (P * 1)(found)) == 0 and count.value == 1
                for gone in (w, x, y, graph, heuristic):
                    assert dnn.cudnnBackendDestroyDescriptor(gone) == 0
                assert dnn.cudnnBackendGetAttribute(descriptor(5, _401=parts(found)), 402, 3, N(1), None, ctypes.byref(size)) == 0
                return size.value
            FLOAT, HALF = 0, 2
            print(workspace(FLOAT, 64, False), workspace(FLOAT, 64, True), workspace(HALF, 3, False), workspace(HALF, 3, True))
        """
        of_float = 4 * (64 * 64 * 9 + 2 * 64 * 100 * 2)
        three_as_eight = 2 * (64 * 8 * 9 + 2 * 8 * 100)  # of two bytes, in pieces of 16
        of_half = three_as_eight + 2 * 2 * 64 * 100
        for share, told in (("0", [0, 0, 0, 0]), ("1", [of_float, 0, of_half, three_as_eight]), ("", [0, 0, 0, 0]), ("x", [0, 0, 0, 0])):
            done = self.run_user(text, STANDIN_CUDNN_WORKSPACE=share)
            self.assertEqual((done.stdout.split(), done.stderr), ([str(each) for each in told], ""))
        half = [int(each) for each in self.run_user(text, STANDIN_CUDNN_WORKSPACE="0.5").stdout.split()]
        self.assertEqual(half[0], of_float // 2)

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

    def test_only_what_a_kernel_gets_is_forgotten_where_no_data_is_kept(self):
        text = BEGIN + """
    assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert cuda.cuCtxSetCurrent(context) == 0 and blas.cublasCreate_v2(ctypes.byref(handle)) == 0
    blocks = [P(), P()]
    for block in blocks:
        assert cuda.cuMemAlloc_v2(ctypes.byref(block), 4096) == 0
        assert cuda.cuMemsetD8_v2(block, 7, 4096) == 0
    assert blas.cublasSgemm_v2(handle, 0, 0, 1, 1, 1, None, None, 1, None, 1, None, blocks[0], 1) == 0
    for block in blocks:
        found = ctypes.create_string_buffer(4)
        assert cuda.cuMemcpyDtoH_v2(found, block, 4) == 0
        print(found.raw[0])
"""
        done = self.run_user(text, STANDIN_DATA="none")
        self.assertEqual((done.returncode, done.stdout), (0, "0\n7\n"), done.stderr)


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""Ordinary programs of Debian do the same with the library as without it: output, exit code, open
descriptors, threads. So do programs that use CUDA beside other libraries that are preloaded often, in
both orders. What is not installed is left out, and said.

usage: ordinary_programs_test.py LIBRARY DRIVER_FOLDER PROGRAMS_FOLDER
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

LIBRARY, DRIVER, PROGRAMS = sys.argv[1:4]
COUNTS = "set -- /proc/$$/fd/*; echo $#; set -- /proc/$$/task/*; echo $#"  # no pipe, whose ends come and go
PYTHON_COUNTS = "import os, threading; print(len(os.listdir('/proc/self/fd')), len(os.listdir('/proc/self/task')), threading.active_count())"
C_PROGRAM = '#include <stdio.h>\nint main(void) { puts("made"); return 7; }\n'
JAVA = "public class Hello { public static void main(String[] a) { System.out.println(\"hello \" + Thread.activeCount()); System.exit(5); } }\n"
# Each in a folder of its own, with data.txt, hello.c and Hello.java.
ORDINARY = [
    ["true"], ["false"], ["ls", "-la", "--time-style=+", "/etc/passwd"], ["cat", "data.txt"], ["sort", "-r", "data.txt"], ["wc", "data.txt"],
    ["grep", "-c", "7", "data.txt"], ["sed", "s/7/seven/", "data.txt"], ["awk", "{ s += $1 } END { print s }", "data.txt"],
    ["find", ".", "-name", "*.txt"], ["tar", "cf", "-", "--mtime=@0", "data.txt"], ["gzip", "-nc", "data.txt"], ["xz", "-c", "data.txt"],
    ["sha256sum", "data.txt"], ["diff", "data.txt", "hello.c"], ["date", "-u", "-d", "@86400"], ["env"], ["xargs", "-a", "data.txt", "-P4", "-n100", "true"],
    ["dd", "if=/dev/zero", "bs=1k", "count=3", "status=none"], ["timeout", "5", "sh", "-c", "exit 9"], ["nohup", "echo", "x"], ["nice", "echo", "x"],
    ["setsid", "-w", "echo", "x"], ["unshare", "-r", "id", "-u"], ["setpriv", "--reuid=65534", "--clear-groups", "id", "-u"], ["runuser", "-u", "nobody", "id", "-un"],
    ["su", "root", "-c", "id -u"], ["sudo", "-n", "id", "-u"],
    ["bash", "-c", COUNTS], ["dash", "-c", COUNTS], ["bash", "-c", "for i in 1 2 3; do (exit $i) & wait $!; echo $?; done; kill -TERM $$"],
    ["python3", "-c", PYTHON_COUNTS], ["python3", "-c", "import subprocess; print(subprocess.run(['ls', '/'], capture_output=True).returncode)"],
    ["python3", "-c", "import multiprocessing as m\nif __name__ == '__main__':\n    with m.get_context('fork').Pool(3) as p: print(p.map(abs, [-1, -2]))"],
    ["sh", "-c", "python3 -W ignore -m unittest -q test.test_json.test_decode test.test_bisect 2>&1 | sed 's/ in .*//'"],
    ["perl", "-e", "opendir(D, '/proc/self/fd'); @f = readdir(D); print scalar(@f), ' ', 6 * 7, qq(\\n)"], ["gcc", "hello.c", "-o", "hello"], ["sh", "-c", "gcc -O2 hello.c -o hello && ./hello"],
    ["g++", "-x", "c++", "-fsyntax-only", "hello.c"], ["make", "-f", "/dev/null", "-n", "data.txt"], ["cmake", "--version"], ["ninja", "--version"],
    ["objdump", "-f", "/bin/true"], ["ldd", "/bin/true"], ["strace", "-o", "/dev/null", "-f", "true"], ["valgrind", "-q", "--error-exitcode=3", "true"],
    ["gdb", "-q", "-batch", "-ex", "print 6*7"], ["node", "-e", "console.log([1, 2].map(x => x * 2), process.argv.length)"],
    ["java", "-version"], ["java", "Hello.java"], ["git", "--version"], ["ssh", "-V"], ["curl", "--version"], ["openssl", "dgst", "-md5", "data.txt"],
    ["sqlite3", ":memory:", "select 6*7"], ["tclsh", "/dev/null"], ["lua", "-v"], ["ruby", "-e", "puts 42"], ["bc", "-q", "/dev/null"], ["rsync", "--version"],
    ["tmux", "-V"], ["vim", "--version"], ["less", "-V"], ["man", "--version"],
]
CUDA = [["program_linked_driver"], ["program_dlopened_driver"], ["program_static_runtime"], ["program_threads", "4", "20"], ["program_lifetimes"]]
COMPANIONS = ["libjemalloc.so.2", "libtcmalloc_minimal.so.4", "faketime/libfaketime.so.1", "libeatmydata.so"]


def run(command, preload, folder):
    """Exit code, stdout and stderr."""
    environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    environment |= {"LC_ALL": "C.UTF-8", "LD_LIBRARY_PATH": DRIVER, "STANDIN_MEMORY": "1GiB", "XDG_RUNTIME_DIR": str(folder / "run")}
    if preload:
        environment["LD_PRELOAD"] = ":".join(preload)
    ended = subprocess.run(command, env=environment, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=300, check=False)
    # env and its like show the preload itself.
    return ended.returncode, b"\n".join(line for line in ended.stdout.splitlines() if b"LD_PRELOAD" not in line), ended.stderr


def main():
    places = [pathlib.Path("/usr/lib") / triple for triple in ("x86_64-linux-gnu", "aarch64-linux-gnu")]
    companions = [str(place / name) for name in COMPANIONS for place in places if (place / name).exists()]
    failures, done, left_out = [], 0, []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "run").mkdir(mode=0o700)
        (folder / "data.txt").write_text("".join(f"{i}\n" for i in range(1000)))
        (folder / "hello.c").write_text(C_PROGRAM)
        (folder / "Hello.java").write_text(JAVA)
        folder.chmod(0o755)

        def compare(command, before, after):
            """Whether what comes with `after` is what comes with `before`; None where it is not the same twice."""
            bare = run(command, before, folder)
            if run(command, before, folder) != bare:
                return None
            now = run(command, after, folder)
            if now != bare:
                if any(run(command, before, folder) != bare for _ in range(3)):
                    return None
                failures.append(f"{' '.join(map(str, command))[:100]}\n  with {before}: {bare}\n  with {after}: {now}")
            return now == bare

        for command in ORDINARY:
            if shutil.which(command[0]) is None:
                left_out.append(command[0])
            elif compare(command, [], [LIBRARY]) is None:
                left_out.append(f"{' '.join(command)[:40]} (not the same twice)")
            else:
                done += 1
                for other in companions if command[0] in ("bash", "python3", "perl", "sort") else []:
                    compare(command, [other], [LIBRARY, other])
                    compare(command, [other], [other, LIBRARY])
        for program in CUDA:
            command = [str(pathlib.Path(PROGRAMS, program[0])), *program[1:]]
            for other in companions:
                compare(command, [other], [LIBRARY, other])
                compare(command, [other], [other, LIBRARY])
    print(f"{done} ordinary programs; beside {len(companions)} of {len(COMPANIONS)} other preloads")
    if left_out:
        print("left out:", ", ".join(left_out))
    print("\n".join(failures) or "nothing is different")
    return 1 if failures or done < 25 else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""`cubfc metrics --listen`: Prometheus is answered with what is then, whatever other clients do, until a signal ends it.

usage: listen_test.py CUBFC LIBRARY DRIVER_FOLDER PROGRAMS_FOLDER
"""
import fcntl
import os
import pathlib
import pwd
import signal
import socket
import struct
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from listening import Listening
from under_cubfc import PATIENCE, run_tests, wait_until

MIB = 1 << 20
REQUEST = b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n"


def has_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as trial:
            trial.bind(("::1", 0))
        return True
    except OSError:
        return False


class Listen(Listening):
    def connect(self, server, sent=b""):
        client = socket.create_connection((server.host, server.port), timeout=PATIENCE)
        self.addCleanup(client.close)
        client.sendall(sent)
        return client

    def answer_to(self, server, sent):
        """All that comes, until the server closes."""
        return self.rest_of(self.connect(server, sent))

    def rest_of(self, client):
        text = b""
        while True:
            try:
                piece = client.recv(65536)
            except ConnectionResetError:
                return text
            if not piece:
                return text
            text += piece

    def test_each_scrape_has_what_is_then(self):
        server = self.listen()
        self.assertEqual(self.scrape(server)["cubfc_processes"], [({}, 0)])
        process = self.start("fill:300", "wait")
        [(labels, value)] = self.scrape(server)["cubfc_in_use_bytes"]
        self.assertEqual((labels["pid"], value), (str(process.pid), 300 * MIB))
        user = self.user.get("user", os.geteuid())
        try:
            user = pwd.getpwuid(user).pw_name
        except KeyError:
            pass
        self.assertEqual(labels["user"], str(user))
        self.end(process)
        self.assertEqual(self.scrape(server)["cubfc_in_use_bytes"], [])

    def test_there_is_a_page_with_a_link_and_nothing_else(self):
        server = self.listen()
        status, headers, text = self.ask(server)
        self.assertEqual((status, headers["Content-Type"]), (200, "text/plain; version=0.0.4; charset=utf-8"))
        self.assertEqual(self.ask(server, "/metrics?x=1")[0], 200)
        status, headers, nothing = self.ask(server, method="HEAD")
        self.assertEqual((status, headers["Content-Length"], nothing), (200, str(len(text)), ""))
        status, headers, text = self.ask(server, "/")
        self.assertEqual((status, headers["Content-Type"]), (200, "text/html; charset=utf-8"))
        self.assertIn('<a href="metrics">', text)
        for path in ("/metrics/", "/metric", "/metrics2", "//", "/../etc/passwd", "/favicon.ico", "*"):
            self.assertEqual(self.ask(server, path)[0], 404, path)
        for method in ("POST", "PUT", "DELETE", "OPTIONS", "TRACE", "BREW"):
            status, headers, _ = self.ask(server, method=method)
            self.assertEqual((status, headers["Allow"]), (405, "GET, HEAD"), method)
        self.assertTrue(self.answer_to(server, b"GET http://here/metrics HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 200 "))
        self.assertTrue(self.answer_to(server, b"GET /metrics HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.1 200 "))

    def test_what_is_no_request_is_refused(self):
        server = self.listen()
        for sent, status in ((b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", 400), (b"rubbish\r\n\r\n", 400),
                             (b"GET /metrics\r\n\r\n", 400), (b"GET /metrics HTTP/1.1\r\nContent-Length: x\r\n\r\n", 400),
                             (b"GET /metrics HTTP/1.1\r\nX: " + b"x" * 20000, 431),
                             (b"GET /" + b"x" * 200000 + b" HTTP/1.1\r\n\r\n", 431),
                             (b"GET /metrics HTTP/1.1\r\n" + b"X: y\r\n" * 50000, 431),
                             (b"POST /metrics HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n" + b"x" * 1000000, 405)):
            with self.subTest(sent[:40]):
                # Who is still writing when the server has closed may not see the answer.
                answer = self.answer_to_all(server, sent)
                self.assertIn(f"HTTP/1.1 {status} ".encode(), answer[:20])
        self.assertEqual(self.scrape(server)["cubfc_processes"], [({}, 0)])

    def answer_to_all(self, server, sent):
        client = self.connect(server)
        try:
            client.sendall(sent)
        except (BrokenPipeError, ConnectionResetError):
            pass
        return self.rest_of(client)

    def test_whoever_is_slow_or_gone_keeps_no_scrape_waiting(self):
        self.start("fill:100", "wait")
        server = self.listen()
        slow = self.connect(server, b"GET /met")
        connections = []
        for number in range(300):
            sent = (b"", b"G", b"GET /metrics HTTP/1.1\r\nX: ", REQUEST)[number % 4]
            connections.append(self.connect(server, sent))
            if number % 3 == 0:  # an end without a word, by a reset
                connections[-1].setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                connections[-1].close()
            if number % 50 == 0:
                self.assertEqual(len(self.scrape(server)["cubfc_active"]), 1)
        self.assertEqual(len(self.scrape(server)["cubfc_active"]), 1)
        process = pathlib.Path(f"/proc/{server.pid}")
        self.assertEqual(len(list((process / "task").iterdir())), 1)
        self.assertLess(len(list((process / "fd").iterdir())), 100)
        # The first has been closed for the many that came after it; of whom nobody comes after, in time.
        self.assertEqual(self.rest_of(slow), b"")
        last = self.connect(server, b"GET /met")
        self.assertEqual(self.rest_of(last), b"")
        self.assertEqual(len(self.scrape(server)["cubfc_active"]), 1)
        self.assertIsNone(server.poll())

    def test_where_no_file_can_be_opened_it_goes_on_when_one_can(self):
        server = self.listen(before=["sh", "-c", 'ulimit -n 10 && exec "$@"', "sh"])
        connections = [self.connect(server, b"GET") for _ in range(40)]
        self.assertEqual(self.scrape(server)["cubfc_processes"], [({}, 0)])
        for connection in connections:
            connection.close()
        self.assertEqual(self.scrape(server)["cubfc_processes"], [({}, 0)])

    def test_signals_end_it_and_it_has_done_its_work(self):
        for end in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(end):
                server = self.listen()
                idle, asking = self.connect(server), self.connect(server)
                self.scrape(server)  # both have been accepted
                os.kill(server.pid, signal.SIGSTOP)
                asking.sendall(REQUEST)
                late = [self.connect(server, REQUEST) for _ in range(20)]
                server.send_signal(end)
                os.kill(server.pid, signal.SIGCONT)
                for client in (asking, *late):
                    self.assertTrue(self.rest_of(client).startswith(b"HTTP/1.1 200 "))
                self.assertEqual(server.wait(timeout=PATIENCE), 0)
                self.assertEqual(self.rest_of(idle), b"")

    def test_an_address_that_cannot_be_had_is_told_with_what_helps(self):
        server = self.listen()
        for address, words in ((f"127.0.0.1:{server.port}", ["already in use", "another port"]),
                               ("192.0.2.1:9834", ["192.0.2.1:9834", "ip address"]),
                               ("nowhere.invalid:9834", ["nowhere.invalid:9834", "number"])):
            done = self.run_cubfc("metrics", "--listen", address)
            self.assertEqual((done.returncode, done.stdout), (1, ""), address)
            for word in [address, *words]:
                self.assertIn(word, done.stderr)
        lowest = int(pathlib.Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").read_text())
        if lowest > 1 and (self.user or os.geteuid() != 0):
            done = self.run_cubfc("metrics", "--listen", "1")
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn("CAP_NET_BIND_SERVICE", done.stderr)

    def test_a_wrong_command_line_opens_nothing(self):
        for words in (["--listen", ""], ["--listen", "127.0.0.1"], ["--listen", "::1:9834"], ["--listen"],
                      ["--listen", "unix:/run/cubfc"], ["--listen", "9834", "-o", str(self.folder / "cubfc.prom")]):
            done = self.run_cubfc("metrics", *words)
            self.assertEqual((done.returncode, done.stdout), (2, ""), words)
            self.assertIn("--listen", done.stderr)
        self.assertFalse((self.folder / "cubfc.prom").exists())

    def test_a_port_alone_is_this_machine(self):
        for address in ("0", ":0", "localhost:0"):
            self.assertEqual(self.listen(address).host, "127.0.0.1", address)
        self.assertEqual(self.listen("0.0.0.0:0").host, "0.0.0.0")

    @unittest.skipUnless(has_ipv6(), "no IPv6 here")
    def test_ipv6_alone_and_both(self):
        server = self.listen("[::1]:0")
        self.assertEqual((server.host, self.ask(server)[0]), ("::1", 200))
        server = self.listen("[::]:0")
        for server.host in ("::1", "127.0.0.1"):
            self.assertEqual(self.ask(server)[0], 200)

    def test_files_that_cannot_be_read_are_told_once(self):
        self.start("fill:100", "wait")
        own = self.files()[0]
        self.write(own.parent / "figures-5-1-short", own.read_bytes()[:5000])
        with (own.parent / "figures-5-1-short").open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            server = self.listen()
            for _ in range(3):
                self.assertEqual(self.scrape(server)["cubfc_unusable_files"], [({}, 1)])
        wait_until(lambda: self.scrape(server)["cubfc_unusable_files"] == [({}, 0)], lambda: "the file's end")
        server.terminate()
        _, told = server.communicate(timeout=PATIENCE)
        self.assertEqual((server.returncode, told.count("\n")), (0, 1), told)
        self.assertIn("figures-5-1-short: ends at byte 5000", told)


if __name__ == "__main__":
    run_tests(__doc__)

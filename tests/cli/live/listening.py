"""`cubfc metrics --listen` as a test has it: on a port that the system chooses, and what it answers."""
import http.client
import re
import subprocess

from under_cubfc import PATIENCE, UnderCubfc, read_metrics


class Listening(UnderCubfc):
    def listen(self, address="127.0.0.1:0", before=()):
        """The process, with the place where it listens in .host and .port. `before`: words that start it."""
        server = subprocess.Popen([*before, self.cubfc, "metrics", "--listen", address], env=self.environment, text=True,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **self.user)
        self.addCleanup(self.end_server, server)
        line = server.stderr.readline()
        found = re.fullmatch(r"cubfc: listening on http://(.*):(\d+)/metrics\n", line)
        self.assertTrue(found, line)
        server.host, server.port = found[1].strip("[]"), int(found[2])
        return server

    def end_server(self, server):
        server.kill()
        server.communicate(timeout=PATIENCE)

    def ask(self, server, path="/metrics", method="GET"):
        """Status, headers and text."""
        connection = http.client.HTTPConnection(server.host, server.port, timeout=PATIENCE)
        try:
            connection.request(method, path)
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read().decode()
        finally:
            connection.close()

    def scrape(self, server):
        status, _, text = self.ask(server)
        self.assertEqual(status, 200)
        return read_metrics(text)

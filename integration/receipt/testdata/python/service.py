"""A service on the recipe of docs/receipt.md, which the test writes into recipe.py."""
import json
import os
import signal
import sqlite3
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import recipe


def mark():
    return "%s" if sys.argv[1].startswith("postgres") else "?"


class Service(BaseHTTPRequestHandler):
    def connect(self):
        if sys.argv[1].startswith("postgres"):
            import psycopg
            return psycopg.connect(sys.argv[1], autocommit=True)
        return sqlite3.connect(sys.argv[1], timeout=60, isolation_level=None)

    def die(self, when):
        if self.headers.get("Die") == when:
            os.kill(os.getpid(), signal.SIGKILL)

    def answer(self, status, body, content_type="application/json"):
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def charge(self):
        operation = self.headers["Once-Operation"]

        def work(db):
            db.execute("insert into charge (operation) values (%s)" % mark(), (operation,))
            self.die("before")
            return 201, json.dumps({"id": os.urandom(8).hex()}).encode()

        status, body = recipe.once(self.connect(), operation, self.headers["Once-Fingerprint"], work)
        self.die("after")
        self.answer(status, body)

    def handle_request(self):
        operation = self.path.rsplit("/", 1)[-1]
        if self.path == "/charges":
            self.charge()
        elif "%" in operation:
            self.answer(400, b"")
        else:
            self.answer(200, json.dumps(recipe.endpoint(self.connect(), self.command, operation)).encode())

    do_GET = do_POST = handle_request

    def do_DELETE(self):
        self.answer(405, b"")

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Service)
print(server.server_port, flush=True)
server.serve_forever()

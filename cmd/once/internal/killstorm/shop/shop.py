"""A shop that charges cards. It knows nothing of idempotency keys.

Usage: shop.py DATABASE PORT [receipts]. With "receipts" it also writes the commit receipt: that is the one statement that is added.
It kills itself where its client wants it to.
"""
import http.server
import json
import os
import signal
import sqlite3
import sys
import time

DATABASE, PORT, RECEIPTS = sys.argv[1], int(sys.argv[2]), "receipts" in sys.argv


class Shop(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.answer(200, b"")

    def do_POST(self):
        order = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        db = sqlite3.connect(DATABASE, timeout=10, isolation_level=None)
        try:
            self.charge(db, order, self.arrived(db, order))
        except sqlite3.Error as e:
            self.answer(500, str(e).encode())
        finally:
            db.close()

    def charge(self, db, order, fate):
        body = json.dumps({"charged": order["order"]}).encode()
        db.execute("begin immediate")
        db.execute("insert into charge (order_id, cents) values (?, ?)", (order["order"], order["cents"]))
        if RECEIPTS:
            db.execute("insert into once_receipt (operation, fingerprint, status, body) values (?, ?, 201, ?)",
                       (self.headers["Once-Operation"], self.headers["Once-Fingerprint"], body))
        if fate == "before":
            die()
        db.execute("commit")
        if fate == "after":
            die()
        if fate == "silent":
            time.sleep(60)
        self.answer(201, body)

    def arrived(self, db, order):
        """Notes for the demo that a request has come, and returns what is to happen to it, which is nothing to a later one."""
        first = db.execute("select count(*) from arrival where order_id = ?", (order["order"],)).fetchone()[0] == 0
        db.execute("insert into arrival (order_id, operation) values (?, ?)", (order["order"], self.headers.get("Once-Operation", "")))
        return self.headers.get("Demo-Fate") if first else ""

    def answer(self, status, body):
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


def die():
    os.kill(os.getpid(), signal.SIGKILL)


http.server.ThreadingHTTPServer(("127.0.0.1", PORT), Shop).serve_forever()

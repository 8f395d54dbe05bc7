"""A service that keeps its keys in a map: python3 map.py PORT FILE SECONDS. FILE has a line for each charge."""
import http.server
import json
import sys
import threading
import time

port, charges, seconds = int(sys.argv[1]), sys.argv[2], float(sys.argv[3])
answers, lock = {}, threading.Lock()


class Charges(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        key = self.headers["Idempotency-Key"]
        with lock:
            if key not in answers:
                with open(charges, "a+") as f:
                    f.write("%d\n" % body["amount"])
                    f.seek(0)
                    number = len(f.readlines())
                time.sleep(seconds)  # the rest of the work
                answers[key] = json.dumps({"id": number}).encode()
        self.send_response(201)
        self.send_header("Content-Length", str(len(answers[key])))
        self.end_headers()
        self.wfile.write(answers[key])

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Charges)
print("ready", flush=True)
server.serve_forever()

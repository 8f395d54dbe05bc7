// A shop that charges cards. It knows nothing of idempotency keys.
//
// Usage: shop.mjs DATABASE PORT [receipts]. With "receipts" it also writes the commit receipt: that is the one statement that is added.
// It kills itself where its client wants it to.
import http from "node:http";
import { DatabaseSync } from "node:sqlite";

const [, , database, port, receipts] = process.argv;
const db = new DatabaseSync(database);
db.exec("pragma busy_timeout = 10000");

function charge(order, headers, fate) {
  const body = Buffer.from(JSON.stringify({ charged: order.order }));
  db.exec("begin immediate");
  try {
    db.prepare("insert into charge (order_id, cents) values (?, ?)").run(order.order, order.cents);
    if (receipts) {
      db.prepare("insert into once_receipt (operation, fingerprint, status, body) values (?, ?, 201, ?)")
        .run(headers["once-operation"], headers["once-fingerprint"], body);
    }
    if (fate === "before") die();
    db.exec("commit");
  } catch (error) {
    db.exec("rollback");
    throw error;
  }
  return body;
}

// Notes for the demo that a request has come, and returns what is to happen to it, which is nothing to a later one.
function arrived(order, headers) {
  const { n } = db.prepare("select count(*) as n from arrival where order_id = ?").get(order.order);
  db.prepare("insert into arrival (order_id, operation) values (?, ?)").run(order.order, headers["once-operation"] ?? "");
  return n === 0 ? headers["demo-fate"] : "";
}

function die() {
  process.kill(process.pid, "SIGKILL");
  for (;;);
}

http.createServer(async (req, res) => {
  if (req.method === "GET") return res.end();
  const chunks = [];
  for await (const chunk of req) chunks.push(chunk);
  try {
    const order = JSON.parse(Buffer.concat(chunks));
    const fate = arrived(order, req.headers);
    const body = charge(order, req.headers, fate);
    if (fate === "after") die();
    if (fate === "silent") return;
    res.writeHead(201, { "Content-Type": "application/json", "Content-Length": body.length }).end(body);
  } catch (error) {
    res.writeHead(500).end(String(error));
  }
}).listen(Number(port), "127.0.0.1");

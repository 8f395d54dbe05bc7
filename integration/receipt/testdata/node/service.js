// A service on the recipe of docs/receipt.md, which the test writes into recipe.js.
import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import pg from "pg";
import { endpoint, once } from "./recipe.js";

const pool = new pg.Pool({ connectionString: process.argv[2], max: 8 });

async function answer(req, res) {
  const die = (when) => { if (req.headers.die === when) process.kill(process.pid, "SIGKILL"); };
  const operation = req.url.split("/").pop();
  if (req.url === "/charges") {
    const id = req.headers["once-operation"];
    const { status, body } = await once(pool, id, req.headers["once-fingerprint"], async (db) => {
      await db.query("insert into charge (operation) values ($1)", [id]);
      die("before");
      return { status: 201, body: Buffer.from(JSON.stringify({ id: randomUUID() })) };
    });
    die("after");
    res.writeHead(status, { "Content-Type": "application/json" }).end(body);
  } else if (operation.includes("%")) {
    res.writeHead(400).end();
  } else if (req.method !== "GET" && req.method !== "POST") {
    res.writeHead(405).end();
  } else {
    res.writeHead(200, { "Content-Type": "application/json" }).end(JSON.stringify(await endpoint(pool, req.method, operation)));
  }
}

const server = createServer((req, res) => answer(req, res).catch((error) => res.writeHead(500).end(String(error))));
server.listen(0, "127.0.0.1", () => console.log(server.address().port));

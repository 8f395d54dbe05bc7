// storm.js charges and refunds orders with Stripe's client for Node, as shops do. It makes the
// keys by itself and repeats what fails. In its environment: PORT, KEY, ORDERS, CLIENTS.
import Stripe from "stripe";
import http from "node:http";

const { PORT, KEY, ORDERS, CLIENTS } = process.env;

async function client(i) {
  const stripe = new Stripe(KEY, {
    host: "127.0.0.1",
    port: PORT,
    protocol: "http",
    maxNetworkRetries: 8,
    telemetry: false,
    httpAgent: new http.Agent({ keepAlive: i % 2 === 1 }),
  });
  for (let order = 0; order < ORDERS / CLIENTS; order++) {
    const charge = await stripe.charges.create({ amount: 5000, currency: "eur", source: "tok_visa" });
    const refund = await stripe.refunds.create({ charge: charge.id, amount: 1200 });
    if (refund.charge !== charge.id || refund.amount !== 1200) {
      throw new Error(`the refund of ${charge.id} is ${JSON.stringify(refund)}`);
    }
  }
}

const ended = await Promise.allSettled(Array.from({ length: Number(CLIENTS) }, (_, i) => client(i)));
for (const { reason } of ended.filter((e) => e.status === "rejected")) {
  console.error(reason);
  process.exitCode = 1;
}

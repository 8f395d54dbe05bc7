// Reads requests from a file, says of each what the libraries of senders say, and signs its body with them.
import { readFileSync } from "node:fs";
import "@shopify/shopify-api/adapters/node";
import { shopifyApi } from "@shopify/shopify-api";
import { Webhook } from "standardwebhooks";
import { sign, verify } from "@octokit/webhooks-methods";

const says = async (check) => {
  try {
    return (await check()) !== false;
  } catch {
    return false;
  }
};
const answers = [];
const apiVersion = "2025-10";
const ofShopify = async (secret, hmac, rawBody) => {
  const library = shopifyApi({ apiKey: "key", apiSecretKey: secret, hostName: "example.com", apiVersion, isEmbeddedApp: false, logger: { log: () => {} } });
  const names = { topic: "orders/create", "api-version": apiVersion, "shop-domain": "a.myshopify.com", "webhook-id": "1", "hmac-sha256": hmac };
  const headers = Object.fromEntries(Object.entries(names).map(([name, value]) => [`x-shopify-${name}`, value]));
  return (await library.webhooks.validate({ rawBody, rawRequest: { method: "POST", url: "/", headers }, rawResponse: {} })).valid;
};
for (const { secret, id, headers, github, shopify, body } of JSON.parse(readFileSync(process.argv[2]))) {
  const now = new Date();
  const standard = new Webhook(secret);
  answers.push({
    standard: await says(() => (standard.verify(body, headers), true)),
    github: await says(() => verify(secret, body, github)),
    shopify: await says(() => ofShopify(secret, shopify, body)),
    stamp: String(Math.floor(now.getTime() / 1000)),
    signature: standard.sign(id, now, body),
    githubSignature: await sign(secret, body),
  });
}
console.log(JSON.stringify(answers));

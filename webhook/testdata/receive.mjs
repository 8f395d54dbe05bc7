import { createHmac, timingSafeEqual } from "node:crypto";

// Returns the ID of the event, or throws. body is a Buffer with the bytes as they have arrived.
export function verify(headers, body, secrets, now = () => Date.now() / 1000) {
  const id = headers["webhook-id"], stamp = headers["webhook-timestamp"];
  const sent = headers["webhook-signature"].split(" ").filter((s) => s.startsWith("v1,")).map((s) => Buffer.from(s.slice(3)));
  let valid = false;
  for (const secret of secrets) {
    const key = Buffer.from(secret.replace(/^whsec_/, ""), "base64");
    const want = Buffer.from(createHmac("sha256", key).update(`${id}.${stamp}.`).update(body).digest("base64"));
    for (const s of sent) valid = (s.length === want.length && timingSafeEqual(s, want)) || valid;
  }
  const fresh = /^\d+$/.test(stamp) && Math.abs(now() - Number(stamp)) <= 300;
  if (!id || !valid || !fresh || id.includes(".") || sent.length > 20) throw new Error("the webhook is not verified");
  return id;
}

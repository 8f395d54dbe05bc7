// Reads requests from a file, says of each what the libraries of senders say, and signs its body with them.
import { readFileSync } from "node:fs";
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
for (const { secret, id, headers, github, body } of JSON.parse(readFileSync(process.argv[2]))) {
  const now = new Date();
  const standard = new Webhook(secret);
  answers.push({
    standard: await says(() => (standard.verify(body, headers), true)),
    github: await says(() => verify(secret, body, github)),
    stamp: String(Math.floor(now.getTime() / 1000)),
    signature: standard.sign(id, now, body),
    githubSignature: await sign(secret, body),
  });
}
console.log(JSON.stringify(answers));

// sendOnce sends a request that must take effect once. name names the intent of the user, such as "order of cart 17". sendOnce stores the key and the
// body under this name until a definite response arrives. After a second click, a reload or a lost response sendOnce sends the same key and body again.
export async function sendOnce(name, url, body) {
  const kept = sessionStorage.getItem(name);
  const intent = kept ? JSON.parse(kept) : { key: crypto.randomUUID(), body: JSON.stringify(body) };
  sessionStorage.setItem(name, JSON.stringify(intent)); // before the first request is sent
  for (let attempt = 1; ; attempt++) {
    let answer, problem = {};
    try {
      answer = await fetch(url, {
        method: "POST",
        headers: { "Content-Type": "application/json", "Idempotency-Key": intent.key },
        body: intent.body,
      });
      if ((answer.headers.get("Content-Type") ?? "").startsWith("application/problem+json")) {
        problem = await answer.clone().json();
      }
    } catch { // no response, or a part of a response: the request may have taken effect
      problem = { retryable: true };
    }
    if (!problem.retryable) {
      sessionStorage.removeItem(name);
      return answer;
    }
    if (attempt === 5) {
      throw new Error("It is not known yet whether this was done. Try again: it is not done twice.");
    }
    const seconds = Number(answer?.headers.get("Retry-After") ?? 0);
    await new Promise((wake) => setTimeout(wake, Math.max(seconds * 1000, 2 ** attempt * 50 * (1 + Math.random()))));
  }
}

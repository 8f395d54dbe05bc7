// Walks through the pages of a console as people do. Its argument is a file with what to visit; it prints what it has found, as JSON.
import { readFileSync, mkdirSync } from "node:fs";
import { chromium } from "playwright-core";
import { AxeBuilder } from "@axe-core/playwright";

const plan = JSON.parse(readFileSync(process.argv[2], "utf8"));
mkdirSync(plan.shots, { recursive: true });
const browser = await chromium.launch({ executablePath: plan.chromium, args: ["--no-sandbox", "--disable-dev-shm-usage"] });
const found = { findings: [], requests: [], messages: [], visited: 0, done: [] };
const at = (path) => new URL(path, plan.base).href;

async function open(options) {
  const context = await browser.newContext({ extraHTTPHeaders: { User: "ada" }, reducedMotion: "reduce", ...options });
  context.setDefaultTimeout(60_000);
  const page = await context.newPage();
  page.on("request", (r) => r.url().startsWith(plan.base) || r.url().startsWith("about:") || found.requests.push(r.url()));
  page.on("console", (m) => m.type() === "error" && found.messages.push(page.url() + ": " + m.text()));
  page.on("pageerror", (e) => found.messages.push(page.url() + ": " + e));
  return page;
}

// look visits each page in both schemes, narrow and wide.
async function look() {
  for (const width of [320, 1280]) {
    for (const colorScheme of ["light", "dark"]) {
      const page = await open({ colorScheme, viewport: { width, height: 800 } });
      for (const [name, path] of Object.entries(plan.pages)) {
        const answer = await page.goto(at(path));
        const where = `${name}, ${width} px, ${colorScheme}`;
        if (answer.status() !== 200) found.findings.push(`${where}: status ${answer.status()}`);
        const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
        if (wide > 0) found.findings.push(`${where}: the page is ${wide} px too wide`);
        const result = await new AxeBuilder({ page }).analyze();
        for (const v of result.violations) {
          if (v.impact === "serious" || v.impact === "critical") found.findings.push(`${where}: ${v.id}: ${v.help}: ${v.nodes.map((n) => n.html).join(" | ").slice(0, 400)}`);
        }
        await page.screenshot({ path: `${plan.shots}/${name}-${width}-${colorScheme}.png`, fullPage: true });
        found.visited++;
      }
      await page.context().close();
    }
  }
}

// act clicks an action through: from its page to its form, and presses the button.
async function act(page, { name, page: path, link, choose, from, press }) {
  await page.goto(at(path));
  const row = from ? page.locator("tr", { hasText: from }) : page.locator("main");
  await row.getByRole(press ? "button" : "link", { name: link }).first().click();
  if (choose) await page.getByLabel(choose).check();
  await page.getByLabel("Reason, for the audit").fill("by a browser: " + name);
  await page.locator("form.do button").click();
  await page.getByRole("status").filter({ hasText: "Done:" }).waitFor();
  found.done.push(name);
}

// keys does an action by the keyboard alone.
async function keys({ name, page: path, link }) {
  const page = await open({ viewport: { width: 1280, height: 800 } });
  const tabTo = async (is, most = 80) => {
    for (let i = 0; i < most; i++) {
      await page.keyboard.press("Tab");
      if (await page.evaluate(is.fn, is.arg)) return;
    }
    throw new Error(`${page.url()}: ${most} tabs do not lead to ${JSON.stringify(is.arg)}`);
  };
  const text = (t) => ({ fn: (t) => document.activeElement.textContent.trim() === t, arg: t });
  await page.goto(at(path));
  await page.keyboard.press("Tab");
  const first = await page.evaluate(() => document.activeElement.textContent);
  if (first !== "To the content") found.findings.push(`${path}: the first stop of the Tab key is ${first}`);
  const outline = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
  if (outline === "none") found.findings.push(`${path}: nothing shows where the keyboard is`);
  await page.keyboard.press("Enter");
  await tabTo(text(link));
  await page.keyboard.press("Enter");
  await page.waitForURL(/\/do\?/);
  await tabTo({ fn: (n) => document.activeElement.name === n, arg: "reason" });
  await page.keyboard.type("by a browser: " + name);
  await page.keyboard.press("Enter");
  await page.getByRole("status").filter({ hasText: "Done:" }).waitFor();
  found.done.push(name);
  await page.context().close();
}

// plain reads and acts without JavaScript.
async function plain(action) {
  const page = await open({ javaScriptEnabled: false });
  await page.goto(at("operations"));
  await page.getByLabel("Key, or its hash").fill(plan.key);
  await page.getByRole("button", { name: "Find" }).click();
  await page.locator("tbody tr").first().getByRole("link").click();
  if (!page.url().includes("/operation?")) found.findings.push(`without JavaScript a key leads to ${page.url()}`);
  await act(page, action);
  await page.context().close();
}

// move goes back and forward, and looks at what a hidden tab sends.
async function move() {
  const page = await open({});
  const sent = [];
  page.on("request", (r) => sent.push(r.url()));
  await page.goto(at("operations?state=unknown"));
  await page.locator("tbody tr").first().getByRole("link").click();
  await page.waitForURL(/operation\?/);
  const one = page.url();
  await page.goBack();
  if (!page.url().endsWith("operations?state=unknown")) found.findings.push(`back leads to ${page.url()}`);
  await page.goForward();
  if (page.url() !== one) found.findings.push(`forward leads to ${page.url()}`);
  await page.clock.install();
  await page.goto(at("outbox"));
  const hide = (hidden) => page.evaluate((hidden) => {
    Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
    document.dispatchEvent(new Event("visibilitychange"));
  }, hidden);
  sent.length = 0;
  await hide(true);
  await page.clock.runFor(60_000);
  if (sent.length > 0) found.findings.push(`a hidden tab sends ${sent}`);
  await hide(false);
  const again = page.waitForRequest(at("outbox"));
  await page.clock.runFor(11_000);
  await again;
  await page.context().close();
}

// draw makes a picture of one page in each scheme.
async function draw() {
  for (const [colorScheme, path] of Object.entries(plan.pictures ?? {})) {
    const page = await open({ colorScheme, viewport: { width: 1180, height: 900 } });
    await page.goto(at(plan.picture));
    await page.screenshot({ path });
    await page.context().close();
  }
}

try {
  await draw();
  if (plan.look) await look();
  const page = await open({ viewport: { width: 1280, height: 800 } });
  for (const a of plan.actions) {
    try {
      if (a.by === "keys") await keys(a);
      else if (a.by === "plain") await plain(a);
      else await act(page, a);
    } catch (e) {
      found.findings.push(`${a.name}: ${e}`);
      await page.screenshot({ path: `${plan.shots}/failed-${a.name}.png`, fullPage: true });
    }
  }
  if (!plan.still) await move();
} catch (e) {
  found.findings.push(String(e.stack));
}
await browser.close();
console.log(JSON.stringify(found));

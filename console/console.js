// Reads a page again every 10 seconds while it is looked at: not while its tab is hidden, a form of it is used, or text is selected.
"use strict";
(() => {
  const every = 10000;
  const live = document.getElementById("live");
  const busy = () => {
    const at = document.activeElement;
    return (at && at.closest && at.closest("main form, main .wide")) || String(getSelection()) !== "" ||
      [...document.querySelectorAll("main input:not([type=hidden])")].some((i) => i.value !== i.defaultValue);
  };
  let timer = 0;
  const next = () => {
    clearTimeout(timer);
    if (!document.hidden && document.querySelector("main[data-live]")) timer = setTimeout(read, every);
  };
  const read = async () => {
    if (busy()) return next();
    try {
      const answer = await fetch(location.href, { headers: { Accept: "text/html" }, cache: "no-store" });
      if (!answer.ok) throw new Error(String(answer.status));
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      if (document.hidden || busy()) return next();
      for (const part of ["main", "footer time"]) {
        const [old, fresh] = [document.querySelector(part), page.querySelector(part)];
        if (old && fresh) old.replaceChildren(...fresh.childNodes);
      }
      live.textContent = "";
    } catch {
      live.textContent = "The page could not be read again: what it shows is old.";
    }
    next();
  };
  document.addEventListener("visibilitychange", () => (document.hidden ? clearTimeout(timer) : next()));
  next();
})();

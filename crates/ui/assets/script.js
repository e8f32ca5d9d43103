// Adds the reader's own time to each time, and reads live pages again. Everything works without it.
"use strict";
(() => {
  const SECONDS = 10;
  const format = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });

  function localise(root) {
    for (const time of root.querySelectorAll("time[datetime]")) {
      const at = new Date(time.dateTime);
      if (!Number.isNaN(at.getTime())) time.title = format.format(at);
    }
  }

  async function refresh() {
    const main = document.getElementById("main");
    // Someone selects text or uses the keyboard in it.
    const isBusy = document.hidden || main.contains(document.activeElement) ||
      !document.getSelection().isCollapsed;
    if (isBusy) return;
    const reply = await fetch(location.href, { credentials: "same-origin" });
    if (!reply.ok) throw new Error(String(reply.status));
    const page = new DOMParser().parseFromString(await reply.text(), "text/html");
    const scrolled = [...main.querySelectorAll(".scroll")].map((it) => it.scrollLeft);
    main.replaceChildren(...page.getElementById("main").childNodes);
    main.querySelectorAll(".scroll").forEach((it, at) => { it.scrollLeft = scrolled[at] ?? 0; });
    document.querySelector("footer").replaceChildren(...page.querySelector("footer").childNodes);
    localise(document);
  }

  localise(document);
  if ("live" in document.body.dataset) {
    setInterval(() => {
      refresh().then(
        () => document.body.removeAttribute("data-stale"),
        () => document.body.setAttribute("data-stale", ""),
      );
    }, SECONDS * 1000);
  }
})();

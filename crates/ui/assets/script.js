// Adds the reader's own time to each time, and reads live pages again. Everything works without it.
"use strict";
(() => {
  const SECONDS = 10;
  // A server that accepts a request and never answers it, or a network that drops it.
  const PATIENCE = 5;
  const OLD = 30;
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
    const signal = AbortSignal.timeout(PATIENCE * 1000);
    const reply = await fetch(location.href, { credentials: "same-origin", signal });
    if (!reply.ok) throw new Error(String(reply.status));
    const page = new DOMParser().parseFromString(await reply.text(), "text/html");
    const scrolled = [...main.querySelectorAll(".scroll")].map((it) => it.scrollLeft);
    main.replaceChildren(...page.getElementById("main").childNodes);
    main.querySelectorAll(".scroll").forEach((it, at) => { it.scrollLeft = scrolled[at] ?? 0; });
    document.querySelector("footer").replaceChildren(...page.querySelector("footer").childNodes);
    localise(document);
    read = Date.now();
  }

  // What was just done is reported once, and neither by a reload nor by a link that someone passes on.
  function forgetWhatWasDone() {
    const here = new URL(location.href);
    if (!here.searchParams.has("done")) return;
    for (const parameter of ["done", "unrecorded"]) here.searchParams.delete(parameter);
    history.replaceState(history.state, "", here);
  }

  let read = Date.now();
  let isReading = false;
  localise(document);
  forgetWhatWasDone();
  if ("live" in document.body.dataset) {
    // By its age, whatever the reason: also a page that is not read again because someone selects text in it is old.
    setInterval(() => {
      document.body.toggleAttribute("data-stale", Date.now() - read > OLD * 1000);
    }, 1000);
    setInterval(async () => {
      if (isReading) return;
      isReading = true;
      try {
        await refresh();
      } catch {
        // Its age shows.
      } finally {
        isReading = false;
      }
    }, SECONDS * 1000);
  }
})();

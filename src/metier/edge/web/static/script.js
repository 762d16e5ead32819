// A light touch: every page works without this file.
"use strict";

const root = document.documentElement;
const themes = ["auto", "light", "dark"];

function theme(name) {
  if (name === "auto") root.removeAttribute("data-theme");
  else root.setAttribute("data-theme", name);
  for (const button of document.querySelectorAll(".theme")) {
    button.hidden = false;
    button.textContent = { auto: "Auto", light: "Light", dark: "Dark" }[name];
    button.setAttribute("aria-label", `Colours: ${name}. Change`);
  }
}

function remembered() {
  try { return localStorage.getItem("metier-theme") || "auto"; } catch { return "auto"; }
}

theme(remembered());

document.addEventListener("DOMContentLoaded", () => {
  theme(remembered());
  local(document);

  // Lists that filter as one types: the same page, only its results are exchanged.
  for (const form of document.querySelectorAll("form[data-live]")) {
    let waiting = 0, asked = 0;
    const results = document.getElementById(form.dataset.live);
    const find = async () => {
      const mine = ++asked;
      const fields = [...new FormData(form)].filter(([, value]) => value !== "");
      const url = `${form.action}?${new URLSearchParams(fields)}`;
      try {
        const answer = await fetch(url, { headers: { accept: "text/html" } });
        const page = new DOMParser().parseFromString(await answer.text(), "text/html");
        const fresh = page.getElementById(results.id);
        if (mine !== asked || !answer.ok || !fresh) return;
        results.replaceChildren(...fresh.childNodes);
        local(results);
        history.replaceState(null, "", url);
      } catch { form.submit(); }
    };
    form.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(find, 180); });
    form.addEventListener("submit", (event) => { event.preventDefault(); clearTimeout(waiting); find(); });
  }

  for (const form of document.querySelectorAll("form[method=post]")) {
    form.addEventListener("submit", () => {
      const button = form.querySelector("button[type=submit]");
      if (button) button.setAttribute("aria-busy", "true");
    });
  }

  const again = document.querySelector("[data-again]");
  if (again) setTimeout(() => location.reload(), 1000 * Number(again.dataset.again));
});

// Moments in the viewer's own time zone.
function local(where) {
  for (const time of where.querySelectorAll("time[datetime]")) {
    const at = new Date(time.dateTime);
    if (!Number.isNaN(at.valueOf())) time.title = at.toLocaleString();
  }
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("button");
  if (!button) return;
  if (button.matches(".theme")) {
    const next = themes[(themes.indexOf(remembered()) + 1) % themes.length];
    try { localStorage.setItem("metier-theme", next); } catch { /* private window: holds for this page */ }
    theme(next);
  }
  if (button.dataset.copy) {
    try {
      await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
      button.textContent = "Copied";
    } catch { button.textContent = "Select the text and copy it"; }
  }
  if (button.dataset.fill) {
    const field = document.getElementById(button.dataset.fill);
    field.value = button.textContent.trim();
    field.focus();
  }
});

document.addEventListener("keydown", (event) => {
  const typing = event.target.matches("input, textarea, select");
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && event.target.matches("textarea")) {
    event.target.form.requestSubmit();
  } else if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
    const field = document.querySelector("[data-search]");
    if (field) { event.preventDefault(); field.focus(); field.select(); }
  }
});

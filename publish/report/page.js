"use strict";
// Comfort only: nothing on the page depends on this.
for (const code of document.querySelectorAll(".commands pre")) {
  if (!navigator.clipboard) break;
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "copy";
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(code.textContent);
    button.textContent = "copied";
    setTimeout(() => { button.textContent = "copy"; }, 1500);
  });
  code.after(button);
}
// The contents mark the section that is being read.
const links = new Map();
for (const a of document.querySelectorAll("nav a")) links.set(a.hash.slice(1), a);
if ("IntersectionObserver" in window) {
  const seen = new Set();
  const watch = new IntersectionObserver((entries) => {
    for (const e of entries) {
      const id = e.target.getAttribute("aria-labelledby");
      if (e.isIntersecting) seen.add(id); else seen.delete(id);
    }
    let first = true;
    for (const [id, a] of links) {
      if (first && seen.has(id)) { a.setAttribute("aria-current", "true"); first = false; }
      else a.removeAttribute("aria-current");
    }
  }, { rootMargin: "-15% 0px -70% 0px" });
  for (const s of document.querySelectorAll("main > section")) watch.observe(s);
}

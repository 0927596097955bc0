// The search of a site without a server. The page holds all titles; the index, which is
// loaded when somebody types, holds the words of the posts. If it cannot be loaded, as
// from a file, titles alone are searched.
"use strict";
(() => {
  const form = document.querySelector(".search-form");
  const field = document.getElementById("search-text");
  const list = document.getElementById("search-list");
  const state = form.querySelector(".search-state");
  const hint = state.textContent;
  const titles = Array.from(list.children, (item) => ({
    item: item,
    path: item.firstElementChild.getAttribute("href"),
    title: item.firstElementChild.textContent.toLowerCase(),
    terms: "",
  }));
  let loading = null;

  const load = async () => {
    const answer = await fetch(form.dataset.index);
    if (!answer.ok) {
      return;
    }
    const terms = new Map((await answer.json()).map((e) => [form.dataset.root + e[0], e[3]]));
    for (const t of titles) {
      t.terms = terms.get(decodeURI(t.path)) || "";
    }
  };

  // A post matches if each word of the query is in its title or begins one of its words.
  const score = (post, words) => {
    let sum = 0;
    for (const w of words) {
      if (post.title.includes(w)) {
        sum += 10;
      } else if ((" " + post.terms).includes(" " + w)) {
        sum += 1;
      } else {
        return 0;
      }
    }
    return sum;
  };

  const show = () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = titles.map((t, at) => ({ t: t, at: at, score: words.length ? score(t, words) : 1 }));
    found.sort((a, b) => b.score - a.score || a.at - b.at);
    let count = 0;
    for (const f of found) {
      f.t.item.hidden = f.score === 0;
      count += f.score ? 1 : 0;
      list.append(f.t.item);
    }
    state.textContent = !words.length ? hint : count ? String(count) : state.dataset.none;
  };

  const search = () => {
    loading = loading || load().catch(() => {});
    loading.then(show);
  };

  form.inert = false;
  form.addEventListener("submit", (event) => event.preventDefault());
  field.addEventListener("input", search);
  field.value = new URLSearchParams(location.search).get("q") || "";
  if (field.value) {
    search();
  }
})();

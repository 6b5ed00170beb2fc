// Loads parts of pages: links and forms with data-fragment="ID" replace the element with this id by the same part of
// the page that they lead to (header X-Fragment). The URL becomes that of the page, so every state can be reloaded.
// A form with data-live submits itself 200 ms after the last key.

const DELAY = 200;
/** @type {AbortController | undefined} */
let running;

/**
 * @param {string} url
 * @param {string} id
 * @param {{ history?: "push" | "replace" | "none" }} [options]
 */
export async function loadFragment(url, id, { history: mode = "push" } = {}) {
  const target = document.getElementById(id);
  if (!target) {
    location.assign(url);
    return;
  }
  running?.abort();
  const mine = (running = new AbortController());
  target.setAttribute("aria-busy", "true");
  try {
    const response = await fetch(url, { headers: { "X-Fragment": id }, signal: mine.signal, credentials: "same-origin" });
    const html = await response.text();
    const made = document.createElement("template");
    made.innerHTML = html;
    const replacement = made.content.getElementById(id);
    if (!response.ok || response.redirected || !replacement) {
      location.assign(url);
      return;
    }
    document.getElementById(id)?.replaceWith(replacement);
    if (mode === "push") history.pushState({ fragment: id }, "", url);
    if (mode === "replace") history.replaceState({ fragment: id }, "", url);
    shown = location.pathname + location.search;
    document.dispatchEvent(new CustomEvent("fragment", { detail: replacement }));
  } catch (error) {
    if (mine.signal.aborted) return;
    target.removeAttribute("aria-busy");
    location.assign(url);
  }
}

/** @param {HTMLFormElement} form */
function urlOf(form) {
  // Not form.action: a field of the form may have this name.
  const url = new URL(form.getAttribute("action") ?? "", document.baseURI);
  const fields = [...new FormData(form)].filter(([, value]) => value !== "");
  url.search = new URLSearchParams(/** @type {[string, string][]} */ (fields)).toString();
  return url.href;
}

document.addEventListener("click", (event) => {
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const link = /** @type {Element} */ (event.target).closest("a[data-fragment]");
  if (!(link instanceof HTMLAnchorElement) || link.origin !== location.origin) return;
  event.preventDefault();
  const id = link.dataset.fragment ?? "";
  loadFragment(link.href, id).then(() => {
    if (link.rel === "next") document.getElementById(id)?.scrollIntoView({ block: "start" });
  });
});

document.addEventListener("submit", (event) => {
  const form = /** @type {HTMLFormElement} */ (event.target);
  if (!form.matches("form[data-fragment][method=get]")) return;
  event.preventDefault();
  clearTimeout(timers.get(form));
  loadFragment(urlOf(form), form.dataset.fragment ?? "");
});

/** @type {WeakMap<HTMLFormElement, number>} */
const timers = new WeakMap();

document.addEventListener("input", (event) => {
  const form = /** @type {HTMLInputElement} */ (event.target).form;
  if (!form?.matches("form[data-live][data-fragment]")) return;
  clearTimeout(timers.get(form));
  timers.set(
    form,
    window.setTimeout(() => loadFragment(urlOf(form), form.dataset.fragment ?? "", { history: "replace" }), DELAY),
  );
});

let shown = location.pathname + location.search;
addEventListener("popstate", (event) => {
  const before = shown;
  shown = location.pathname + location.search;
  // A link to an element of this page, such as the one that skips to the content, needs no other page.
  if (shown === before) return;
  if (event.state?.fragment) loadFragment(location.href, event.state.fragment, { history: "none" });
  else if (document.querySelector("[data-fragment]")) location.reload();
});

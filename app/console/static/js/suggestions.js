// The element with data-suggestions="URL" is filled with the part of this page that has its id, once a field of the form
// before it gets the focus: suggestions are read only where somebody types.

const target = document.querySelector("[data-suggestions]");

async function load() {
  if (!(target instanceof HTMLElement)) return;
  const response = await fetch(target.dataset.suggestions ?? "", { headers: { "X-Fragment": target.id } });
  if (response.ok && !response.redirected) target.innerHTML = await response.text();
}

target?.previousElementSibling?.addEventListener("focusin", load, { once: true });

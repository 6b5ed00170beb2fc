// The form of a tool's page is submitted without leaving it: what the call does is shown while it runs, and can be
// cancelled, which cancels it at the upstream. The URL becomes one that shows the same arguments again.

/** @type {AbortController | undefined} */
let running;

document.addEventListener("submit", (event) => {
  const form = /** @type {HTMLFormElement} */ (event.target);
  if (!form.matches("form[data-try]")) return;
  event.preventDefault();
  const button = /** @type {HTMLButtonElement | null} */ (event.submitter);
  const isCall = button?.name === "do" && ["call", "dry_run"].includes(button.value);
  if (isCall && !button?.formNoValidate && !form.reportValidity()) return;
  send(form, button, isCall);
});

// A choice of an alternative takes effect at once.
document.addEventListener("change", (event) => {
  const select = /** @type {HTMLElement} */ (event.target);
  const button = select.dataset?.submitWith && document.getElementById(select.dataset.submitWith);
  if (button instanceof HTMLButtonElement) button.form?.requestSubmit(button);
});

/** @param {HTMLFormElement} form @param {HTMLButtonElement | null} button @param {boolean} isCall */
async function send(form, button, isCall) {
  running?.abort();
  const mine = (running = new AbortController());
  const data = new FormData(form, button);
  const body = form.enctype === "multipart/form-data" ? data : new URLSearchParams(/** @type {any} */ (data));
  const section = /** @type {HTMLElement} */ (document.getElementById("try_it"));
  const label = button?.getAttribute("aria-label") ?? button?.name ?? "";
  const stop = isCall ? showProgress(section, mine) : () => {};
  try {
    const response = await fetch(form.action, { method: "POST", body, headers: { "X-Fragment": "try_it" }, signal: mine.signal });
    const html = await response.text();
    const made = document.createElement("template");
    made.innerHTML = html;
    const replacement = made.content.getElementById("try_it");
    if (response.status === 401) {
      // The page that asks to sign in keeps a form that is submitted as a whole.
      if (button) form.append(Object.assign(document.createElement("input"), { type: "hidden", name: button.name, value: button.value }));
      form.submit();
      return;
    }
    if (!response.ok || !replacement) {
      location.reload();
      return;
    }
    document.getElementById("try_it")?.replaceWith(replacement);
    if (replacement.dataset.url) history.replaceState(null, "", replacement.dataset.url);
    focusOn(replacement, isCall, button?.name ?? "", label);
  } catch (error) {
    if (!mine.signal.aborted) throw error;
  } finally {
    stop();
  }
}

/**
 * Show that the call runs, with the seconds and a button that cancels it.
 * @param {HTMLElement} section @param {AbortController} controller
 */
function showProgress(section, controller) {
  const template = /** @type {HTMLTemplateElement} */ (document.getElementById("try-running"));
  const bar = /** @type {HTMLElement} */ (/** @type {DocumentFragment} */ (template.content.cloneNode(true)).firstElementChild);
  section.querySelector("[data-try]")?.append(bar);
  section.setAttribute("aria-busy", "true");
  const began = performance.now();
  const time = bar.querySelector("[data-seconds]");
  const timer = setInterval(() => {
    if (time) time.textContent = `${Math.round((performance.now() - began) / 1000)} s`;
  }, 1000);
  bar.querySelector("button")?.addEventListener("click", () => controller.abort());
  return () => {
    clearInterval(timer);
    bar.remove();
    section.removeAttribute("aria-busy");
  };
}

/**
 * Put the focus where one goes on: the first field that is wrong, the result, or the button that was pressed.
 * @param {HTMLElement} section @param {boolean} isCall @param {string} name @param {string} label
 */
function focusOn(section, isCall, name, label) {
  const wrong = section.querySelector("[aria-invalid=true]:is(input, select, textarea)");
  const target = isCall ? (wrong ?? section.querySelector("[data-focus]")) : section.querySelector(`button[name="${CSS.escape(name)}"]`);
  if (target instanceof HTMLElement) target.focus();
  else if (label) /** @type {HTMLElement | null} */ (section.querySelector(".schema-field input, .schema-field select"))?.focus();
}

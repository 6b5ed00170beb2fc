// The element with data-import waits for the end of an import: it asks its page, and then loads this page again, or
// submits the form within, which has what a URL may not have.

const waiting = /** @type {HTMLElement | null} */ (document.querySelector("[data-import]"));
let pause = 500;

async function ask() {
  if (!waiting) return;
  try {
    const response = await fetch(waiting.dataset.import ?? "", { headers: { "X-Fragment": "progress" } });
    const made = document.createElement("template");
    made.innerHTML = await response.text();
    const state = made.content.getElementById("progress")?.dataset.state;
    if (!response.ok || response.redirected || state !== "running") {
      const form = waiting.querySelector("form:has(input[name=draft])");
      if (form instanceof HTMLFormElement) form.requestSubmit();
      else location.reload();
      return;
    }
  } catch {
    // The gateway restarts, or the network is away: the next time may succeed.
  }
  pause = Math.min(pause * 1.5, 5000);
  setTimeout(ask, pause);
}

setTimeout(ask, pause);

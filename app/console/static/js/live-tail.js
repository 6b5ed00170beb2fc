// <live-tail src for max immutable>: puts rows of a stream of server-sent events at the top of the table body `for`, of
// which the oldest rows beyond `max` are removed. `src` has the position of the list, after which the stream begins; some
// rows of the list come again: each replaces that of its id or, with `immutable`, is left out. It pauses while the tab is
// hidden, while the reader has scrolled past it, and by its button; then it goes on with a new list, so that nothing is
// missing in between.

import { loadFragment } from "./fragments.js";

const SETTLE = 300;
const MAX_DELAY = 60_000;

class LiveTail extends HTMLElement {
  /** @type {EventSource | undefined} */
  #source;
  /** @type {IntersectionObserver | undefined} */
  #observer;
  #paused = "";
  #position = "";
  #delay = 2_000;
  #timer = 0;

  connectedCallback() {
    const button = this.#button();
    button.hidden = false;
    button.onclick = () => (this.#paused ? this.#resume() : this.#pause("paused"));
    document.addEventListener("visibilitychange", this.#onVisibility);
    this.#observer = new IntersectionObserver(this.#onScroll, { rootMargin: "-52px 0px 1000000px" });
    this.#observer.observe(this);
    if (document.hidden) this.#pause("hidden");
    else this.#connect();
  }

  disconnectedCallback() {
    this.#close();
    this.#observer?.disconnect();
    document.removeEventListener("visibilitychange", this.#onVisibility);
  }

  #connect() {
    this.#close();
    this.#say("connecting");
    const url = new URL(this.getAttribute("src") ?? "", document.baseURI);
    if (this.#position) url.searchParams.set("position", this.#position);
    const source = (this.#source = new EventSource(url));
    source.onopen = () => {
      this.#delay = 2_000;
      this.#say("connected");
    };
    source.onerror = () => {
      this.#say("connecting");
      if (source.readyState === EventSource.CLOSED) this.#connectLater();
    };
    source.addEventListener("rows", (event) => {
      this.#position = event.lastEventId;
      this.#add(event.data);
    });
    source.addEventListener("end", (event) => {
      const { text, again, reload } = JSON.parse(event.data);
      this.#close();
      this.#status().textContent = text;
      if (again) this.#connectLater(reload);
    });
  }

  /** @param {boolean} [reload] */
  #connectLater(reload) {
    this.#close();
    const begin = () => (reload ? this.#resume() : this.#connect());
    this.#timer = window.setTimeout(begin, this.#delay * (0.75 + Math.random() / 2));
    this.#delay = Math.min(2 * this.#delay, MAX_DELAY);
  }

  #close() {
    clearTimeout(this.#timer);
    this.#source?.close();
    this.#source = undefined;
  }

  /** @param {string} html */
  #add(html) {
    const body = document.getElementById(this.getAttribute("for") ?? "");
    if (!body) return;
    const made = document.createElement("template");
    made.innerHTML = html;
    for (const row of made.content.querySelectorAll("tr[id]")) {
      const known = document.getElementById(row.id);
      if (known && this.hasAttribute("immutable")) {
        row.remove();
        // What was left out is older than a row of the list, and so no news either.
        made.content.querySelector(".left-out")?.remove();
      } else known?.replaceWith(row);
    }
    // Without the text between rows, which would be left behind.
    body.prepend(...made.content.children);
    const focused = document.activeElement?.closest("tr");
    const surplus = [...body.children].slice(Number(this.getAttribute("max")));
    for (const row of surplus) if (row !== focused) row.remove();
  }

  /** @param {string} reason */
  #pause(reason) {
    this.#paused = reason;
    this.#close();
    this.#say(reason === "scrolled" ? "scrolled" : "paused");
  }

  #resume() {
    loadFragment(location.href, "results", { history: "none" });
  }

  #onVisibility = () => {
    if (document.hidden && !this.#paused) this.#pause("hidden");
    else if (!document.hidden && this.#paused === "hidden") this.#resume();
  };

  /** @param {IntersectionObserverEntry[]} entries */
  #onScroll = (entries) => {
    // What is below the window counts as within it: it is out only above.
    const isPast = !entries[entries.length - 1].isIntersecting;
    if (isPast && !this.#paused) this.#pause("scrolled");
    else if (!isPast && this.#paused === "scrolled") {
      clearTimeout(this.#timer);
      this.#timer = window.setTimeout(() => this.#paused === "scrolled" && this.#resume(), SETTLE);
    } else if (isPast && this.#paused === "scrolled") clearTimeout(this.#timer);
  };

  /** @param {"connected" | "connecting" | "paused" | "scrolled"} state */
  #say(state) {
    const status = this.#status();
    const text = status.dataset[state] ?? "";
    if (status.textContent !== text) status.textContent = text;
    const button = this.#button();
    button.textContent = (this.#paused ? button.dataset.resume : button.dataset.pause) ?? "";
  }

  #status() {
    return /** @type {HTMLElement} */ (this.querySelector("[role=status]"));
  }

  #button() {
    return /** @type {HTMLButtonElement} */ (this.querySelector("button"));
  }
}

customElements.define("live-tail", LiveTail);

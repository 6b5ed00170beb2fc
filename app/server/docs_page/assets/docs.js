// Sends requests from the forms of /docs. The API key is in the variable `key` and nowhere else: not in storage, cookies,
// the URL or the document.
"use strict";
(() => {
  const MAX_SHOWN = 262144; // characters of a response
  const root = document.body.dataset.root;
  const input = document.getElementById("api-key");
  const state = document.getElementById("key-state");
  let key = "";

  function useKey(text) {
    key = text.trim();
    input.value = "";
    state.textContent = key ? "A key is set." : "No key is set.";
  }

  // A form as { url, options }; parameters without a value are not sent.
  function requestOf(form) {
    let path = form.dataset.path;
    const query = new URLSearchParams();
    const headers = new Headers();
    for (const field of form.querySelectorAll("[data-in]")) {
      const { name, in: location } = field.dataset;
      const values = field.tagName === "TEXTAREA" ? field.value.split("\n").filter(Boolean) : [field.value];
      for (const value of values) {
        if (location === "path") path = path.replace(`{${name}}`, encodeURIComponent(value));
        else if (value && location === "query") query.append(name, value);
        else if (value) headers.set(name, value);
      }
    }
    if (input.value) useKey(input.value);
    if (key) headers.set("Authorization", `Bearer ${key}`);
    const body = form.querySelector("[data-body]")?.value || undefined;
    if (body) headers.set("Content-Type", form.querySelector("[data-media-type]").value);
    const search = query.size ? `?${query}` : "";
    const options = { method: form.dataset.method, headers, body, cache: "no-store", credentials: "omit", redirect: "error" };
    return { url: root + path + search, options };
  }

  // The text so far after each part of the body arrives, at most MAX_SHOWN characters.
  async function read(response, show) {
    if (!response.body) return "";
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return text;
      text += value;
      show(text);
      if (text.length > MAX_SHOWN) {
        await reader.cancel();
        return `${text.slice(0, MAX_SHOWN)}\n(The rest is not shown.)`;
      }
    }
  }

  function formatted(text, mediaType) {
    if (!/json$/.test(mediaType)) return text;
    try {
      return JSON.stringify(JSON.parse(text), null, 2);
    } catch {
      return text;
    }
  }

  async function send(form) {
    const status = form.querySelector("[data-status]");
    const result = form.querySelector("[data-result]");
    const submit = form.querySelector("[type=submit]");
    const cancel = form.querySelector("[data-cancel]");
    const controller = new AbortController();
    const show = (text) => {
      result.textContent = text;
      result.hidden = !text;
    };
    cancel.onclick = () => controller.abort();
    cancel.disabled = false;
    submit.disabled = true;
    status.textContent = "Sending.";
    show("");
    try {
      const { url, options } = requestOf(form);
      const response = await fetch(url, { ...options, signal: controller.signal });
      const mediaType = (response.headers.get("Content-Type") || "").split(";")[0].trim();
      status.textContent = `Status ${response.status} ${mediaType}`.trim();
      show(formatted(await read(response, show), mediaType));
    } catch (error) {
      status.textContent = controller.signal.aborted ? "Cancelled." : `The request failed: ${error.message}`;
    } finally {
      cancel.disabled = true;
      submit.disabled = false;
    }
  }

  // The operation or schema that the URL's fragment names is opened.
  function openTarget() {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (target?.tagName !== "DETAILS") return;
    target.open = true;
    target.scrollIntoView();
    target.querySelector("summary").focus({ preventScroll: true });
  }

  document.addEventListener("submit", (event) => {
    event.preventDefault();
    send(event.target);
  });
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter") useKey(input.value);
  });
  document.getElementById("use-key").addEventListener("click", () => useKey(input.value));
  document.getElementById("forget-key").addEventListener("click", () => useKey(""));
  addEventListener("pagehide", () => useKey(""));
  addEventListener("hashchange", openTarget);
  for (const button of document.querySelectorAll("[type=submit]")) button.disabled = false;
  openTarget();
})();

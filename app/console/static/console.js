// Functions beyond htmx. No inline handlers: the page's policy forbids them.
"use strict";

document.documentElement.classList.add("js");

// Search while the visitor types. The search after a longer pause is recorded and takes feedback; the others are not.
const TYPED_MS = 250;
const SETTLED_MS = 1200;
let timers = [];
let asked = "";

function stopTyping() {
  timers.forEach(clearTimeout);
  timers = [];
}

document.addEventListener("input", (event) => {
  const field = event.target;
  if (field.id !== "query" || !field.hasAttribute("hx-post")) return;
  stopTyping();
  const text = field.value.trim();
  // One letter finds too much; one ideograph is a word.
  if ((text.length === 1 && text < "\u2e80") || event.isComposing) return;
  timers = [setTimeout(() => htmx.trigger(field, "typed"), TYPED_MS)];
  if (text === "" || text === asked) return;
  timers.push(setTimeout(() => {
    asked = text;
    htmx.trigger(document.getElementById("settled"), "settled");
  }, SETTLED_MS));
});

// Back, pressed again before this script ran, has changed the address only.
function showAddress() {
  const [navigation] = performance.getEntriesByType("navigation");
  const shown = document.getElementById("search")?.dataset.shown ?? location.search.slice(1);
  if (shown !== location.search.slice(1) && navigation?.type !== "reload") location.reload();
}

showAddress();

// A search that was only typed has no address yet. It gets one when a result is opened, so that Back leads to it.
document.addEventListener("click", (event) => {
  const address = event.target.closest("a[href]")?.closest("#answer")?.dataset.address;
  if (!address || address === location.pathname + location.search) return;
  history.replaceState({ htmx: true }, "");
  history.pushState({ htmx: true }, "", address);
});

document.addEventListener("submit", (event) => {
  if (event.target.id !== "search") return;
  stopTyping();
  asked = document.getElementById("query").value.trim();
});

// "/" focuses the field with data-key="/", also where that has the focus and is empty; the arrows, j and k go through the results.
function focusQuery() {
  const field = document.querySelector('[data-key="/"]');
  if (!field) return false;
  field.focus();
  field.select();
  return true;
}

function goThroughHits(step, from) {
  const links = Array.from(document.querySelectorAll(".hit h3 a"));
  const place = links.indexOf(from);
  if (place + step < 0) return focusQuery();
  const link = links[place + step];
  link?.focus();
  link?.closest(".hit").scrollIntoView({ block: "nearest" });
  return Boolean(link);
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  const element = event.target;
  const typing = element.closest("input, textarea, select, [contenteditable]");
  const down = event.key === "ArrowDown" || (event.key === "j" && !typing);
  const up = event.key === "ArrowUp" || (event.key === "k" && !typing);
  let done = false;
  if (event.key === "/" && (!typing || (element.dataset.key === "/" && !element.value))) done = focusQuery();
  else if (element.id === "query" && event.key === "ArrowDown") done = goThroughHits(1, null);
  else if (element.matches(".hit h3 a") && (down || up)) done = goThroughHits(down ? 1 : -1, element);
  else if (!typing && (event.key === "j" || event.key === "k")) done = goThroughHits(1, null);
  if (done) event.preventDefault();
});

// A button that shows and hides the element that it controls; the choice lasts while the page is open.
const shown = new Set();

function showControlled() {
  for (const button of document.querySelectorAll("[data-shows]")) {
    button.setAttribute("aria-expanded", String(shown.has(button.dataset.shows)));
  }
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-shows]");
  if (!button) return;
  const name = button.dataset.shows;
  if (!shown.delete(name)) shown.add(name);
  showControlled();
});

// Announce the message of a new part to screen readers, and clear earlier messages.
document.addEventListener("htmx:beforeRequest", (event) => {
  const element = event.target;
  if (!element.matches("[hx-trigger*='every'], [hx-trigger*='load']")) document.getElementById("problem").replaceChildren();
});

for (const failure of ["htmx:sendError", "htmx:timeout"]) {
  document.addEventListener(failure, () => {
    const problem = document.createElement("p");
    problem.className = "problem unreachable";
    problem.textContent = "The service cannot be reached. Check the connection, then try again.";
    document.getElementById("problem").replaceChildren(problem);
  });
}

document.addEventListener("htmx:beforeOnLoad", () => document.querySelector(".unreachable")?.remove());

document.addEventListener("htmx:afterSettle", (event) => {
  const part = event.target;
  const said = part.matches("[data-announce]") ? part : part.querySelector("[data-announce]");
  if (said) document.getElementById("announcement").textContent = said.textContent.trim();
});

// Keep unfolded parts open and the focus in place when the page around them is replaced.
let unfolded = [];
let focused = "";

document.addEventListener("htmx:beforeSwap", () => {
  unfolded = Array.from(document.querySelectorAll("details[id][open]"), (details) => details.id);
  focused = document.activeElement.id;
});

document.addEventListener("htmx:afterSwap", () => {
  showControlled();
  for (const id of unfolded) document.getElementById(id)?.setAttribute("open", "");
  if (document.activeElement !== document.body) return;
  (document.getElementById(focused) ?? document.getElementById("content")).focus({ preventScroll: true });
});

// Uploads: each file in a request of its own, one after another, with its progress and its own answer.
function addRow(file) {
  const row = document.createElement("div");
  const bar = document.createElement("progress");
  bar.setAttribute("aria-label", `Upload of ${file.name}`);
  row.className = "upload-progress";
  row.append(`${file.name} `, bar);
  document.getElementById("upload-answer").append(row);
  return row;
}

function sendFile(form, file, row) {
  const data = new FormData(form);
  data.delete("file");
  data.append("file", file);
  return new Promise((resolve) => {
    const request = new XMLHttpRequest();
    request.open("POST", form.action);
    request.setRequestHeader("HX-Request", "true");
    request.upload.addEventListener("progress", ({ lengthComputable, loaded, total }) => {
      if (lengthComputable && total > 0) row.querySelector("progress").value = loaded / total;
    });
    request.addEventListener("loadend", () => {
      row.className = "";
      // The answer is a part of a page, whose values the service has escaped.
      const outdated = request.getResponseHeader("HX-Refresh") !== null;
      if (outdated) row.textContent = `${file.name} was not sent: another tab shows another tenant. Load this page again.`;
      else if (request.status) row.innerHTML = request.responseText;
      else row.textContent = `${file.name} could not be sent.`;
      if (request.status >= 400) (row.querySelector("p") ?? row).prepend(`${file.name}: `);
      resolve(request.status === 200 && !outdated);
    });
    request.send(data);
  });
}

async function sendFiles(form, files) {
  const button = form.querySelector("button[type='submit']");
  if (button.disabled) return;
  const external = form.elements.external_id;
  external.setCustomValidity(files.length > 1 && external.value.trim() ? "An external id belongs to one file." : "");
  if (!external.reportValidity()) return;
  document.getElementById("upload-answer").replaceChildren();
  button.disabled = true;
  const rows = files.map(addRow);
  for (const [number, file] of files.entries()) {
    if (await sendFile(form, file, rows[number])) htmx.trigger(document.body, "assets-changed");
  }
  button.disabled = false;
  form.elements.file.value = "";
}

document.addEventListener("submit", (event) => {
  if (!event.target.matches("form[data-upload]")) return;
  event.preventDefault();
  sendFiles(event.target, Array.from(event.target.elements.file.files));
});

for (const kind of ["dragenter", "dragover", "dragleave", "drop"]) {
  document.addEventListener(kind, (event) => {
    const form = document.querySelector("form[data-upload]");
    if (!form || !event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault(); // the browser would open the file instead of the page
    form.classList.toggle("over", kind === "dragenter" || kind === "dragover");
    if (kind === "drop") sendFiles(form, Array.from(event.dataTransfer.files));
  });
}

// Functions beyond htmx. No inline handlers: the page's policy forbids them.
"use strict";

// "/" focuses the field with data-key="/".
document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("input, textarea, select, [contenteditable]");
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || typing) return;
  const field = document.querySelector('[data-key="/"]');
  if (!field) return;
  event.preventDefault();
  field.focus();
  field.select();
});

// Announce the message of a new part to screen readers, and clear earlier messages.
document.addEventListener("htmx:beforeRequest", (event) => {
  const element = event.target;
  if (element.matches("form[data-upload]")) document.getElementById("upload-answer").replaceChildren();
  if (!element.matches("[hx-trigger*='every'], [hx-trigger*='load']")) document.getElementById("problem").replaceChildren();
});

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
  for (const id of unfolded) document.getElementById(id)?.setAttribute("open", "");
  if (document.activeElement !== document.body) return;
  (document.getElementById(focused) ?? document.getElementById("content")).focus({ preventScroll: true });
});

// Show the progress of an upload; the list of documents shows the processing.
function showUpload(form, share) {
  const box = form.querySelector(".upload-progress");
  const text = share < 1 ? `${Math.floor(100 * share)} %` : "uploaded, being stored";
  box.hidden = share === null;
  box.querySelector("progress").value = share ?? 0;
  box.querySelector("[data-percent]").textContent = share === null ? "" : text;
}

document.addEventListener("htmx:xhr:progress", (event) => {
  const form = event.target.closest("form[data-upload]");
  const { lengthComputable, loaded, total } = event.detail;
  if (form && lengthComputable && total > 0) showUpload(form, loaded / total);
});

document.addEventListener("htmx:afterRequest", (event) => {
  if (!event.target.matches("form[data-upload]")) return;
  showUpload(event.target, null);
  if (event.detail.successful) event.target.querySelector("input[type='file']").value = "";
});

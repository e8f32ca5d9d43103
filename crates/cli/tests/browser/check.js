// Returns what is wrong with the page: text without contrast, fields without a label, parts that do not fit, and
// requests that left the origin.
const wrong = [];
const numbers = (color) => (color.match(/[\d.]+/g) ?? []).map(Number);

function luminance([r, g, b]) {
  const part = (value) => {
    const share = value / 255;
    return share <= 0.03928 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  };
  return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
}

function background(element) {
  for (let at = element; at; at = at.parentElement) {
    const color = numbers(getComputedStyle(at).backgroundColor);
    if (color.length === 3 || color[3] === 1) return color;
  }
  return [255, 255, 255];
}

for (const element of document.body.querySelectorAll("*")) {
  const hasText = [...element.childNodes].some((it) => it.nodeType === 3 && it.data.trim());
  if (!hasText || element.closest("svg, .skip")) continue;
  const [a, b] = [numbers(getComputedStyle(element).color), background(element)].map(luminance);
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (ratio < 4.5) wrong.push(`contrast ${ratio.toFixed(1)}: ${element.outerHTML}`);
}
for (const field of document.querySelectorAll("input:not([type=hidden]), select")) {
  if (!field.labels.length) wrong.push(`no label: ${field.outerHTML}`);
}
for (const picture of document.querySelectorAll("svg")) {
  if (!picture.getAttribute("aria-label")) wrong.push(`no name: ${picture.outerHTML}`);
}
if (document.documentElement.scrollWidth > innerWidth) {
  wrong.push(`too wide: ${document.documentElement.scrollWidth} > ${innerWidth}`);
}
for (const { name } of performance.getEntriesByType("resource")) {
  if (!name.startsWith(`${location.origin}/`)) wrong.push(`foreign request: ${name}`);
}
return wrong;

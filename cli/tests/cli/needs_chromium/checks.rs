//! Checks of a page: names, width, contrast, and no error of the browser.

use super::browser::Browser;

/// Fails if something on the page cannot be told apart from others, has no name, or does not fit.
pub(super) fn check_page(browser: &Browser, what: &str) {
    let unnamed = browser.script(
        "return [...document.querySelectorAll('a, button, input:not([type=hidden]), select, svg.fabric[width], img')]
           .filter((one) => !(one.getAttribute('aria-label') || one.alt || one.textContent.trim() ||
             one.querySelector('img[alt]') ||
             (one.labels && one.labels.length)))
           .map((one) => one.outerHTML)",
    );
    assert_eq!(unnamed, serde_json::json!([]), "{what}: elements without a name");
    let doubled = browser.script(
        "const ids = [...document.querySelectorAll('[id]')].map((one) => one.id);
         return ids.filter((id, at) => ids.indexOf(id) !== at)",
    );
    assert_eq!(doubled, serde_json::json!([]), "{what}: ids that are there twice");
    let wide = browser.script("return document.documentElement.scrollWidth - innerWidth");
    assert!(wide.as_i64().is_some_and(|wide| wide <= 0), "{what}: {wide} pixels too wide");
    let empty = browser.script(
        "return [...document.querySelectorAll('img')].filter((one) => one.complete && !one.naturalWidth)
           .map((one) => one.src)",
    );
    assert_eq!(empty, serde_json::json!([]), "{what}: pictures that are not shown");
    let pale = browser.script(CONTRAST);
    assert_eq!(pale, serde_json::json!([]), "{what}: texts with a contrast below 4.5");
    assert_eq!(browser.complaints(), [""; 0], "{what}");
}

/// Lists texts whose contrast with what is behind them is below 4.5 to 1.
const CONTRAST: &str = "
  const rgb = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((c) => c / 255)
    .map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, at) => sum + c * [0.2126, 0.7152, 0.0722][at], 0);
  const behind = (one) => {
    const box = one.closest('g.cell');
    if (box) return rgb(getComputedStyle(box.querySelector('rect')).fill);
    for (let at = one; at; at = at.parentElement) {
      const color = rgb(getComputedStyle(at).backgroundColor);
      if (color.length === 3 || color[3] > 0) return color;
    }
    return [255, 255, 255];
  };
  return [...document.querySelectorAll('body *')]
    .filter((one) => [...one.childNodes].some((n) => n.nodeType === 3 && n.data.trim()))
    .filter((one) => one.tagName !== 'title' && one.getClientRects().length > 0)
    .map((one) => {
      const style = getComputedStyle(one);
      const own = rgb(one.closest('svg') ? style.fill : style.color);
      const [a, b] = [light(own), light(behind(one))].sort((x, y) => y - x);
      return [one.textContent.trim().slice(0, 30), ((a + 0.05) / (b + 0.05)).toFixed(2)];
    })
    .filter(([, ratio]) => ratio < 4.5)";

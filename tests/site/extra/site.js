// Blocks that scroll can be reached by the keyboard, and the search has a name for screen readers.
for (const code of document.querySelectorAll("pre > code")) {
  const reach = () => { if (!code.hasAttribute("tabindex")) code.tabIndex = 0 }
  new MutationObserver(reach).observe(code, { attributes: true, attributeFilter: ["tabindex"] }) // the theme removes it
  reach()
}
document.querySelector(".md-search")?.setAttribute("aria-label", "Search")
// The theme's button of the versions has a name without the version that it shows, which a voice command needs.
const named = () => {
  for (const button of document.querySelectorAll(".md-version__current")) {
    const name = `Select version: ${button.textContent.trim()}`
    if (button.ariaLabel !== name) button.ariaLabel = name
  }
}
new MutationObserver(named).observe(document.querySelector(".md-header") ?? document.body, { childList: true, subtree: true })
named()

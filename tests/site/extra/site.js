// Blocks that scroll can be reached by the keyboard, and the search has a name for screen readers.
for (const code of document.querySelectorAll("pre > code")) {
  const reach = () => { if (!code.hasAttribute("tabindex")) code.tabIndex = 0 }
  new MutationObserver(reach).observe(code, { attributes: true, attributeFilter: ["tabindex"] }) // the theme removes it
  reach()
}
document.querySelector(".md-search")?.setAttribute("aria-label", "Search")

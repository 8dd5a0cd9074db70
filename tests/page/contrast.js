// Returns what axe-core says of the contrast of the texts on this page. Looks only at texts that differ in their colours
// or size from all that it has seen: `seen` has them from page to page. The same colours give the same answer.
async (seen) => {
  const backgrounds = new WeakMap()
  const behind = (element) => {
    if (!element) return ""
    if (!backgrounds.has(element)) {
      const style = getComputedStyle(element)
      const own = `${style.backgroundColor} ${style.backgroundImage === "none" ? "" : "image"} ${style.opacity}`
      const isSolid = !/, 0\)| image /.test(own) && !/rgba/.test(style.backgroundColor) && style.opacity === "1"
      backgrounds.set(element, isSolid ? own : own + behind(element.parentElement))
    }
    return backgrounds.get(element)
  }
  const known = new Set(seen), chosen = []
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement
    if (!texts.currentNode.data.trim() || !element.checkVisibility({ visibilityProperty: true })) continue
    const style = getComputedStyle(element)
    const look = `${style.color} ${style.fontSize} ${style.fontWeight} ${style.textShadow} on ${behind(element)}`
    if (!known.has(look)) {
      known.add(look)
      chosen.push([look, element])
    }
  }
  if (!chosen.length) return { looks: [], wrong: [] }
  const found = await axe.run({ include: chosen.map(([, element]) => element) }, { runOnly: ["color-contrast"] })
  const told = ({ any: [{ data }], html }) =>
    `${data.fgColor} on ${data.bgColor} is ${data.contrastRatio}: ${html.slice(0, 300)}`
  const wrong = found.violations.flatMap((each) => each.nodes.map(told))
  return { looks: chosen.map(([look]) => look), wrong }
}

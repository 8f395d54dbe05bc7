// The site is docs/ as it is: GitHub shows the same files. What differs is done here.
import fs from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitepress'

const docs = fs.realpathSync(process.env.ONCE_SITE_DOCS || fileURLToPath(new URL('../../docs', import.meta.url)))
const repository = 'https://github.com/oncelib/once'

// docs/ has no node_modules above it: what a page imports is looked up from here.
const pagesAreElsewhere = {
  name: 'once-pages',
  enforce: 'pre',
  resolveId(id, importer, options) {
    if (/^vue(\/|$)/.test(id) && importer?.startsWith(docs)) return this.resolve(id, fileURLToPath(import.meta.url), { ...options, skipSelf: true })
  },
}

export default defineConfig({
  srcDir: docs,
  outDir: process.env.ONCE_SITE_OUT || fileURLToPath(new URL('../dist', import.meta.url)),
  base: process.env.ONCE_SITE_BASE || '/',
  title: 'once',
  description: 'Retried requests, redelivered messages and resumed jobs take effect once.',
  lang: 'en',
  cleanUrls: true,
  head: [['link', { rel: 'icon', href: `data:image/svg+xml,${encodeURIComponent('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="7" fill="#1b6e53"/><path d="M12 10l5-3v18" fill="none" stroke="#fff" stroke-width="4"/></svg>')}` }]],
  rewrites: { 'README.md': 'index.md', 'runbooks/README.md': 'runbooks/index.md' },
  vite: { plugins: [pagesAreElsewhere] },
  markdown: {
    anchor: { slugify: slug },
    config(md) {
      md.core.ruler.push('once-links', rewriteLinks)
    },
  },
  transformPageData(page) {
    if (page.relativePath === 'index.md') page.frontmatter = { ...page.frontmatter, ...home() }
  },
  themeConfig: {
    nav: [
      { text: 'Quick start', link: '/quickstart' },
      { text: 'I have X, take Y', link: '/choose' },
      { text: 'Guarantees', link: `${repository}/blob/main/GUARANTEES.md` },
      { text: 'API', link: 'https://pkg.go.dev/github.com/oncelib/once' },
    ],
    sidebar: sidebar(),
    outline: [2, 3],
    search: { provider: 'local' },
    socialLinks: [{ icon: 'github', link: repository }],
    editLink: { pattern: `${repository}/edit/main/docs/:path`, text: 'Edit this page' },
  },
})

// slug makes the anchors of GitHub, so that a link to one leads to the same place here.
function slug(text) {
  return text.trim().toLowerCase().replace(/[^\p{L}\p{N}\p{M} _-]/gu, '').replaceAll(' ', '-')
}

// rewriteLinks lets links to what is outside of docs/ lead to the repository, and those to an index to its folder. The others stay: a dead one fails the build.
function rewriteLinks(state) {
  const from = path.join(docs, path.dirname(state.env.relativePath ?? ''))
  for (const block of state.tokens) {
    for (const token of block.children ?? []) {
      const href = token.type === 'link_open' && token.attrGet('href')
      if (!href || /^([a-z]+:|#|\/)/i.test(href)) continue
      const [file, anchor] = href.split('#')
      const to = path.relative(docs, path.join(from, file))
      if (!to.startsWith('..')) {
        if (path.basename(to) === 'README.md') token.attrSet('href', `/${path.dirname(to)}/`.replace('/./', '/') + (anchor ? '#' + anchor : ''))
        continue
      }
      const target = path.join(docs, to)
      const kind = fs.statSync(target).isDirectory() ? 'tree' : 'blob' // fails if it leads nowhere
      token.attrSet('href', `${repository}/${kind}/main/${path.relative(path.dirname(docs), target)}${anchor ? '#' + anchor : ''}`)
    }
  }
}

// sidebar is the index, docs/README.md: a group for each heading, an entry for each link to a page. The runbooks have an index of their own.
function sidebar() {
  const groups = index('README.md')
  groups.push({ text: 'Runbooks', collapsed: true, items: index('runbooks/README.md').flatMap((g) => g.items) })
  return groups.filter((g) => g.items.length > 0)
}

function index(file) {
  const groups = [{ text: '', items: [] }]
  for (const line of fs.readFileSync(path.join(docs, file), 'utf8').split('\n')) {
    const heading = line.match(/^(##+) (.*)/)
    if (heading?.[1] === '##') groups.push({ text: heading[2], collapsed: false, items: [] })
    if (heading?.[1] === '###') groups.at(-1).items.push({ text: heading[2], collapsed: true, items: [] })
    for (const [, text, page] of line.matchAll(/\[([^\]]+)\]\(([\w/-]+\.md)\)/g)) {
      const group = groups.at(-1)
      const into = group.items.at(-1)?.items ?? group.items
      into.push({ text, link: '/' + path.join(path.dirname(file), page).replace(/(README)?\.md$/, '') })
    }
  }
  return groups
}

// home is what the first page of the site has above the index.
function home() {
  return {
    layout: 'home',
    hero: {
      name: 'once',
      text: 'sync.Once, across processes, networks and crashes',
      tagline: 'Retried requests, redelivered messages and resumed jobs take effect once. The key, your write and the stored answer are one commit in your own database.',
      actions: [
        { theme: 'brand', text: 'Quick start', link: '/quickstart' },
        { theme: 'alt', text: 'I have X, take Y', link: '/choose' },
        { theme: 'alt', text: 'When not to use it', link: '/not-once' },
      ],
    },
  }
}

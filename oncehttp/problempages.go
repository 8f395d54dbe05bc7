package oncehttp

import (
	_ "embed" // of the pages
	"html/template"
	"net/http"
	"regexp"
	"strings"

	"github.com/oncelib/once/internal/base/wire"
)

//go:embed problems.md
var problemsText string

// ProblemPages returns a handler that serves a page for each type of problem. The text of the pages comes from the file [oncehttp/problems.md]. Each
// page explains one problem, says whether it is safe to send the request again, and says what the client can do. The path of a page is the part of
// the problem's type after Preset.ProblemBase; the path / lists all pages.
//
//	preset.ProblemBase = "https://api.example.com/problems/"
//	mux.Handle("GET /problems/", http.StripPrefix("/problems", oncehttp.ProblemPages()))
//
// [oncehttp/problems.md]: https://github.com/oncelib/once/blob/main/oncehttp/problems.md
func ProblemPages() http.Handler {
	mux := http.NewServeMux()
	pages := problemPages()
	for _, page := range pages {
		mux.HandleFunc("GET /"+page.Path, func(w http.ResponseWriter, _ *http.Request) { page.write(w) })
	}
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		writeHTML(w, problemList, pages)
	})
	return mux
}

// problemPage is the page about one type of problem.
type problemPage struct {
	Code, Path string
	Paragraphs []template.HTML
}

// problemPages splits problems.md into pages.
func problemPages() (pages []problemPage) {
	for _, section := range strings.Split(problemsText, "\n## ")[1:] {
		code, text, _ := strings.Cut(section, "\n")
		page := problemPage{Code: code, Path: wire.ProblemPath(code)}
		for paragraph := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
			page.Paragraphs = append(page.Paragraphs, inHTML(paragraph))
		}
		pages = append(pages, page)
	}
	return pages
}

var (
	bold  = regexp.MustCompile(`\*\*(.+?)\*\*`)
	coded = regexp.MustCompile("`(.+?)`")
)

// inHTML converts a paragraph of problems.md to HTML. Its Markdown has only bold words and code.
func inHTML(paragraph string) template.HTML {
	text := template.HTMLEscapeString(paragraph)
	text = bold.ReplaceAllString(text, "<strong>$1</strong>")
	return template.HTML(coded.ReplaceAllString(text, "<code>$1</code>")) //nolint:gosec // a text of this package, escaped
}

func (p problemPage) write(w http.ResponseWriter) { writeHTML(w, problemText, p) }

func writeHTML(w http.ResponseWriter, t *template.Template, data any) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	_ = t.Execute(w, data) // an error is ignored: the client may have disconnected
}

var (
	problemText = template.Must(template.New("problem").Parse(`<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark">
<title>{{.Code}}</title>
<main><h1>{{.Code}}</h1>{{range .Paragraphs}}
<p>{{.}}</p>{{end}}
</main></html>
`))
	problemList = template.Must(template.New("problems").Parse(`<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark">
<title>Problems</title>
<main><h1>Problems</h1><ul>{{range .}}
<li><a href="{{.Path}}">{{.Code}}</a></li>{{end}}
</ul></main></html>
`))
)

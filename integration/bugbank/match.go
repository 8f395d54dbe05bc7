package bugbank

import (
	"fmt"
	"go/scanner"
	"go/token"
	"regexp"
	"slices"
	"strings"
)

// word is a token of Go, without white space, comments, and the semicolons that line ends
// stand for.
type word struct {
	start, end int // in the text that it was read from
	tok        token.Token
	text       string
}

// words reads Go's tokens. A text that is none, such as a piece of SQL, yields whatever
// comes out.
func words(src []byte) (list []word) {
	var s scanner.Scanner
	file := token.NewFileSet().AddFile("", -1, len(src))
	s.Init(file, src, func(token.Position, string) {}, 0)
	for {
		pos, tok, lit := s.Scan()
		if tok == token.EOF {
			return list
		}
		if tok == token.SEMICOLON && lit != ";" {
			continue
		}
		text := lit
		if text == "" {
			text = tok.String()
		}
		start := file.Offset(pos)
		list = append(list, word{start, start + len(text), tok, text})
	}
}

// place is where an edit stands: from and to are offsets in the declaration's file.
type place struct {
	decl     *declaration
	from, to int
	text     string // what to write there
}

// locate finds what e replaces.
func (s *source) locate(e Edit) (place, error) {
	d, err := s.find(e.In)
	if err != nil {
		return place{}, fmt.Errorf("%w.%s", err, s.elsewhere(e.Old, nil))
	}
	found := occurrences(d, e.Old)
	if len(found) != 1 {
		return place{}, fmt.Errorf("%s has %d places for %q, 1 is expected: %s.%s", d, len(found), e.Old, difference(d, e.Old, len(found)), s.elsewhere(e.Old, d))
	}
	return place{d, d.start + found[0][0], d.start + found[0][1], e.New}, nil
}

// occurrences finds old in a declaration: as Go code, token by token, or else as a piece of
// one of its strings, blind to white space.
func occurrences(d *declaration, old string) (found [][2]int) {
	text, want := words(d.text()), words([]byte(old))
	if len(want) == 0 {
		return nil
	}
	for i := 0; i+len(want) <= len(text); i++ {
		if slices.EqualFunc(text[i:i+len(want)], want, func(a, b word) bool { return a.text == b.text }) {
			found = append(found, [2]int{text[i].start, text[i+len(want)-1].end})
		}
	}
	if len(found) > 0 {
		return found
	}
	fields := strings.Fields(old)
	for i, f := range fields {
		fields[i] = regexp.QuoteMeta(f)
	}
	piece := regexp.MustCompile(strings.Join(fields, `\s+`))
	for _, w := range text {
		if w.tok == token.STRING {
			for _, m := range piece.FindAllStringIndex(w.text, -1) {
				found = append(found, [2]int{w.start + m[0], w.start + m[1]})
			}
		}
	}
	return found
}

// difference tells where the longest beginning of old ends that a declaration has.
func difference(d *declaration, old string, found int) string {
	if found > 1 {
		return "make Old longer"
	}
	text, want := words(d.text()), words([]byte(old))
	best, at := 0, 0
	for i := range text {
		n := 0
		for n < len(want) && i+n < len(text) && text[i+n].text == want[n].text {
			n++
		}
		if n > best {
			best, at = n, i+n
		}
	}
	if best == 0 {
		return "it has nothing of that"
	}
	join := func(list []word) string {
		var b []string
		for _, w := range list {
			b = append(b, w.text)
		}
		return strings.Join(b, " ")
	}
	const shown = 8
	return fmt.Sprintf("after %q the mutant has %q, the code %q", join(want[max(0, best-shown):best]), join(want[best:min(len(want), best+shown)]), join(text[at:min(len(text), at+shown)]))
}

// elsewhere names the other declarations that have old.
func (s *source) elsewhere(old string, but *declaration) string {
	var names []string
	for _, d := range s.all {
		if d != but && len(occurrences(d, old)) == 1 {
			names = append(names, d.String())
		}
	}
	if len(names) == 0 || len(names) > 5 {
		return ""
	}
	return " It is in " + strings.Join(names, ", ")
}

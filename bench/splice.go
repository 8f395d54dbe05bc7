package main

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// A report can be made in several runs: a run with -only replaces its sections in the file, and keeps the others.

const (
	markBegins = "\n<!-- section "
	markEnds   = " -->\n"
)

// text is the chapter with the mark by which it is found again.
func (c chapter) text() string {
	var w strings.Builder
	w.WriteString(markBegins + c.section + markEnds)
	c.write(func(format string, a ...any) { fmt.Fprintf(&w, format+"\n", a...) })
	return w.String()
}

// splice returns the report old, with its chapters replaced by the chapters of r.
func (r *report) splice(old string) (string, error) {
	head, rest, found := strings.Cut(old, markBegins)
	if !found {
		return "", errors.New("the file has no sections that can be replaced. Try: a run without -only, or another file")
	}
	texts := map[string]string{}
	for c := range strings.SplitSeq(rest, markBegins) {
		section, _, _ := strings.Cut(c, markEnds)
		texts[section] = markBegins + c
	}
	for _, c := range r.chapters() {
		quick := ""
		if r.Quick {
			quick = " with `-quick`"
		}
		apart := fmt.Sprintf("\nMeasured apart from the others on %s%s, in slices of %s and %d rounds where nothing else is said. Load average of the machine: %s\nbefore and %s after.\n",
			r.When.Format(time.DateOnly), quick, r.Slice, r.Rounds, r.Load[0], r.Load[1])
		mark, text, _ := strings.Cut(c.text(), markEnds)
		if title, body, found := strings.Cut(text, "\n\n"); found { // after the title
			text = title + "\n" + apart + "\n" + body
		}
		texts[c.section] = mark + markEnds + text
	}
	var w strings.Builder
	w.WriteString(head)
	for _, section := range sections {
		w.WriteString(texts[section])
	}
	return w.String(), nil
}

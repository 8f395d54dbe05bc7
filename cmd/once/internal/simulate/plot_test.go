package simulate

import (
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// elements returns the elements of that name and class in a drawing.
func elements(t *testing.T, svg, name, class string) (list []map[string]string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(svg))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return list
		}
		if err != nil {
			t.Fatal(err)
		}
		e, ok := token.(xml.StartElement)
		if !ok || e.Name.Local != name {
			continue
		}
		attributes := map[string]string{}
		for _, a := range e.Attr {
			attributes[a.Name.Local] = a.Value
		}
		if slices.Contains(strings.Fields(attributes["class"]), class) {
			list = append(list, attributes)
		}
	}
}

// The drawings say what the results say, the same for the same seed.
func TestDrawingsAreDecidedByTheSeed(t *testing.T) {
	s, _ := Preset("herd")
	s.Length = 60 * sec
	draw := func() (Outcome, string, string) {
		o := RunAll([]Scenario{s}, 3).Scenarios[0]
		return o, amplification(o), bars(o)
	}
	o, over, again := draw()
	if _, a, b := draw(); a != over || b != again {
		t.Error("one seed has two drawings")
	}

	for _, show := range shown {
		lines := elements(t, over, "path", show.class)
		if len(lines) != 1 || strings.Count(lines[0]["d"], "L") != 59 {
			t.Errorf("attempts an intent of %s: %v", show.name, lines)
		}
	}
	for _, r := range o.Results {
		list := amplified(r)
		switch most := slices.Max(list); {
		case r.Name == "no retries" && (most != 1 || slices.Min(list) != 1):
			t.Errorf("with no retries there are %v attempts an intent", list)
		case r.Name == "full jitter" && most < 4:
			t.Errorf("in a storm there are %v attempts an intent", list)
		}
	}

	endless, recovered := 0, map[float64]bool{}
	rects := elements(t, again, "rect", "endless")
	for _, mood := range []string{"good", "so-so"} {
		rects = append(rects, elements(t, again, "rect", mood)...)
	}
	if len(rects) != len(o.Results) {
		t.Fatalf("%d bars of %d policies", len(rects), len(o.Results))
	}
	for _, r := range o.Results {
		if r.Recovery < 0 {
			endless++
		} else {
			recovered[r.Recovery] = true
		}
	}
	if n := len(elements(t, again, "rect", "endless")); n != endless || endless == 0 || len(recovered) < 3 {
		t.Errorf("%d bars without an end of %d, and %d with different ones", n, endless, len(recovered))
	}
	for _, p := range Policies() {
		if !strings.Contains(again, ">"+p.Name+"</text>") {
			t.Errorf("%s is not named", p.Name)
		}
	}
	// The bars are in the order of the results, and as long as they say.
	var widths []float64
	d := elements(t, again, "text", "value")
	for i, r := range o.Results {
		x, _ := strconv.ParseFloat(d[i]["x"], 64)
		widths = append(widths, x)
		for j := range i {
			other := o.Results[j]
			if r.Recovery >= 0 && other.Recovery >= 0 && (r.Recovery < other.Recovery) != (x < widths[j]) && r.Recovery != other.Recovery {
				t.Errorf("%s took %v s and %s %v s, and their bars end at %v and %v", r.Name, r.Recovery, other.Name, other.Recovery, x, widths[j])
			}
			if (r.Recovery < 0) != (other.Recovery < 0) && (r.Recovery < 0) != (x > widths[j]) {
				t.Errorf("the bar of %s, which took %v s, and that of %s, %v s, end at %v and %v", r.Name, r.Recovery, other.Name, other.Recovery, x, widths[j])
			}
		}
	}
}

func TestTickLabels(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.5: "0.5", 2: "2", 1500: "1,500"} {
		if got := tick(v); got != want {
			t.Errorf("%v is %q", v, got)
		}
	}
}
